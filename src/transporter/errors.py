"""What went wrong in a way that the user can mend."""


class InputError(ValueError):
    """Bad input: the command line prints its one line and exits with code 2."""
