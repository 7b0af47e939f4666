"""Learning rate as a function of the step alone, so that resuming needs no state."""

import math


def poly(step: int, *, steps: int, lr: float, power: float = 0.9) -> float:
    """Decay from `lr` at step 0 to zero at `steps`; beyond the end it stays zero."""
    return lr * math.pow(max(0.0, 1.0 - step / steps), power)
