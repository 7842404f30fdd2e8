"""Delays Ctrl-C until a call has learnt its records: an interruption halfway would spoil the estimator."""

# `signal` wraps this in enums and takes ten times as long; a call may learn a single record.
import _signal  # type: ignore[import-not-found]
import threading
from types import FrameType, TracebackType


class Uninterrupted:
    """A context that delays SIGINT: at its end the previous handler is called, by default to raise KeyboardInterrupt.

    Only the main thread is ever interrupted, so in other threads it does nothing. It does nothing either if SIGINT is
    not handled in Python.

    Examples
    --------
    >>> import signal
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> done = []
    >>> try:
    ...     with Uninterrupted():
    ...         signal.raise_signal(signal.SIGINT)
    ...         done.append("all of it")
    ... except KeyboardInterrupt:
    ...     done
    ['all of it']
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    def __enter__(self) -> None:
        self._noted: FrameType | None = None
        self._before = None
        if threading.current_thread() is threading.main_thread():
            before = _signal.getsignal(_signal.SIGINT)
            if callable(before):
                self._before = before
                _signal.signal(_signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = frame

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is None:
            return
        _signal.signal(_signal.SIGINT, self._before)
        if self._noted is not None:
            self._before(_signal.SIGINT, self._noted)
