"""What one should know before believing that something was learnt."""

SOME = 0.01  # a share of updates that is worth a word


def left_out(updates: int, bad: float) -> str | None:
    """Of the updates, those that a learner did not make because a gradient was no finite number."""
    share = bad / updates
    return f"{share:.0%} of the updates were left out, as they were no finite numbers" if share > SOME else None
