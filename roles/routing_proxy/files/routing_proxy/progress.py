"""Whether a replica gets on with its requests. Pure: it is told what was seen and when, in seconds of any clock."""

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Tells a hung engine from one that is busy with a long silent prefill: the latter counts steps.

    A hung engine still answers health checks with 200, so only this shows it.
    """

    patience: float
    moved_at: float = 0.0
    _steps: float | None = None

    def moved(self, now: float) -> None:
        """A byte of an answer came, or the first request after none."""
        self.moved_at = now

    def is_silent(self, now: float) -> bool:
        """Tell whether it has been silent for long enough that its step counter is worth a look."""
        if now - self.moved_at >= self.patience / 4:
            return True
        self._steps = None
        return False

    def counted(self, steps: float | None, now: float) -> None:
        """Take its step counter, None if it can't be had: that is no step. The first in a silence is what others
        are compared with."""
        if steps is None:
            return
        if self._steps is not None and steps != self._steps:
            self.moved_at = now
        self._steps = steps

    def is_stalled(self, now: float) -> bool:
        """Tell whether it has given no sign of progress for too long."""
        return now - self.moved_at >= self.patience
