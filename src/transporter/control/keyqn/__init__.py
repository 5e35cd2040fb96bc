"""KeyQN (§3.2.1): a recurrent Q-network on keypoints, fitted from 100,000 interactions; many agents learn together.

>>> from transporter.control.keyqn import KeyQN
>>> KeyQN.load("runs/keyqn-pong-keypoints/agents/pong-seed0.safetensors").play(env)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transporter.control.keyqn.agent import KeyQN

__all__ = ["KeyQN"]


def __getattr__(name: str) -> Any:
    """Fetched when first asked for: the command line reads the config beside it without waiting for torch."""
    if name == "KeyQN":
        from transporter.control.keyqn.agent import KeyQN

        return KeyQN
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
