"""An exploration small enough to be spread over processes in a test."""

from transporter.control.options.config import (
    ActingConfig,
    EyesConfig,
    LearningConfig,
    NetworkConfig,
    OptionsConfig,
)

SMALL = OptionsConfig(
    NetworkConfig(layers=((4, 4, 2),), hidden=8, memory=6),
    LearningConfig(batch=4, burn_in=2, unroll=4, every=1),
    ActingConfig(players=8, commit=5, warm_up=20, replay=8 * 60, epsilon_low=0.05),
    EyesConfig(size=16, offset=5, batch=4, tiny=True),
)
