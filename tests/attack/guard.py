"""What a reader may do with a file that was made to do harm: refuse it by name, soon and without much memory."""

from __future__ import annotations

import io
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from types import FrameType

from tests.attack.tally import Tally

__all__ = ["survive"]

SECONDS = 20  # of CPU time
MEGABYTES = 700  # how much the memory in use may grow


class TooLongError(BaseException):
    """No ``except Exception`` of a reader may take it for damage of its file."""


def survive(tally: Tally, name: str, read: Callable[[], object], told: tuple[str, ...] = ()) -> None:
    """Call a reader: it may return or raise a ValueError or OSError that contains one of the words told.

    A recursion too deep, an overflow, no memory or any other error is a failure, as is taking too long.
    """
    tally.cases += 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problem = ""
    try:
        with time_limit(), warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            read()
    except (ValueError, OSError) as error:
        if told and not any(word in str(error) for word in told):
            problem = f"does not name the file: {type(error).__name__}: {str(error)[:200]}"
        elif len(str(error)) > 20_000:
            problem = f"an error of {len(str(error)):,} letters"
    except TooLongError:
        problem = f"takes more than {SECONDS} s"
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error)[:200]}"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if not problem and grown > MEGABYTES:
        problem = f"takes {grown:.0f} MB more"
    tally.check(not problem, f"{name}: {problem}")


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise a :class:`TooLongError` after a while; nothing happens outside the main thread."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError

    try:
        old = signal.signal(signal.SIGPROF, stop)
    except ValueError:  # not the main thread
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
