"""Progress of long work, by tqdm if it is installed and stderr is a terminal or notebook."""

import sys
import threading

try:
    from tqdm.auto import tqdm
except ImportError:
    tqdm = None

AFTER_S = 1.0  # shorter work shows nothing
EVERY_S = 0.25


def _watched():
    return "ipykernel" in sys.modules or sys.stderr.isatty()


class Progress:
    """`with Progress("compiling") as progress: ...; progress("timing loop")`. Goes on while the engine
    computes, since the engine releases the GIL."""

    def __init__(self, text):
        self._text = text
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if tqdm and _watched() else None

    def __call__(self, text):
        self._text = text

    def __enter__(self):
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        if self._thread:
            self._thread.join()

    def _show(self):
        if self._over.wait(AFTER_S):
            return
        with tqdm(bar_format="{desc} {elapsed}", leave=False) as bar:
            while True:
                bar.set_description_str(self._text)
                if self._over.wait(EVERY_S):
                    return
