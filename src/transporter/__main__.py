"""python -m transporter, and torchrun -m transporter."""

from transporter.cli import main

main()
