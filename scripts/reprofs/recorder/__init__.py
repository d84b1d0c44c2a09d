"""`reprofs record`: runs a program and keeps what a replay of its file-system calls needs, and no name or content."""
