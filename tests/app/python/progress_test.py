"""Long work says what it is at where somebody watches; short work and files stay quiet."""

import package

package.enter()

import contextlib  # noqa: E402
import io  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402

import nwide as nw  # noqa: E402
from nwide import progress  # noqa: E402


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(work, stream):
    with contextlib.redirect_stderr(stream), mock.patch.object(progress, "AFTER_S", 0.05):
        work()
    return stream.getvalue()


def work(seconds=0.6):
    with progress.Progress("first") as tell:
        time.sleep(seconds / 2)
        tell("second")
        time.sleep(seconds / 2)


class Shown(unittest.TestCase):
    def test_on_a_terminal(self):
        text = shown(work, Terminal())
        self.assertIn("first", text)
        self.assertIn("second", text)

    def test_not_in_a_file_nor_when_short(self):
        self.assertEqual(shown(work, io.StringIO()), "")
        self.assertEqual(shown(lambda: work(0.0), Terminal()), "")

    def test_a_contest_says_its_stages(self):
        wide = nw.compile([torch.nn.Linear(3, 3) for _ in range(3)], torch.randn(2, 3))
        said = []
        with mock.patch.object(progress.Progress, "__call__", lambda self, text: said.append(text)):
            wide.benchmark(torch.randn(3, 2, 3), budget_s=0.05)
        self.assertIn("prepare wide", said)
        self.assertTrue(any(text.startswith("timing loop") and "vmap" in text for text in said), said)


if __name__ == "__main__":
    unittest.main()
