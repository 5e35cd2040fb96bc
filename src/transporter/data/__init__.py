"""Pairs of frames: collected, chosen and kept on disk."""
