"""Options from keypoints (§3.2.2): exploration without reward.

>>> from transporter.control.options import KeypointOptions, OptionsAgent
>>> env = KeypointOptions(gymnasium.make("ALE/MontezumaRevenge-v5"), OptionsAgent.load("options.safetensors"))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transporter.control.options.agent import OptionsAgent
    from transporter.control.options.wrapper import KeypointOptions

__all__ = ["KeypointOptions", "OptionsAgent"]


def __getattr__(name: str) -> Any:
    """Fetched when first asked for: the command line reads the config beside it without waiting for torch."""
    if name == "OptionsAgent":
        from transporter.control.options.agent import OptionsAgent

        return OptionsAgent
    if name == "KeypointOptions":
        from transporter.control.options.wrapper import KeypointOptions

        return KeypointOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
