"""ReproFS: the file-system benchmark whose results anyone can reproduce."""

__version__ = "0.1.0"
