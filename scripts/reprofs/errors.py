"""The one error a user may see: a sentence that says what is wrong, where, and what to do."""


class UserError(Exception):
    """Bad input or a missing prerequisite. The command line prints the sentence, no traceback, and exits with 2."""
