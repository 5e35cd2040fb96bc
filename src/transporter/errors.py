"""What went wrong in a way that the user can mend."""


class InputError(ValueError):
    """Bad input: the command line prints its one line and exits with code 2.

    What a file or a command line says may be part of it, and may be anything: characters that would break the line or
    steer a terminal are written out.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in message))
