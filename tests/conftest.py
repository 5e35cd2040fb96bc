"""Tests run on one thread each: two threads that share their cores with other work wait for one another."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported anywhere
