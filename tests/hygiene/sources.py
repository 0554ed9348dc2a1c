"""The project's files, as the hygiene tests see them."""

import os
import subprocess
import tempfile

FOLDERS = ("engine", "primitives", "blocks", "data", "app", "tests")
CODE = (".cpp", ".h", ".hpp", ".cu", ".cuh")


def root():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.environ.get("WORKBENCH_SOURCE") or os.path.dirname(os.path.dirname(here))


def code_files(top, extensions=CODE):
    """Paths relative to top, sorted, of the code under the project's folders."""
    found = []
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(top, folder)):
            found += [os.path.relpath(os.path.join(where, name), top) for name in names
                      if name.endswith(extensions)]
    return sorted(found)


def entries(top):
    """Top-level entries that git tracks; without git, all but build/."""
    listing = subprocess.run(["git", "-C", top, "ls-files"], capture_output=True, text=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        return sorted({line.split("/")[0] for line in listing.stdout.splitlines()})
    return sorted(name for name in os.listdir(top) if name not in ("build", ".git"))


class Tree:
    """A small project in a temporary folder, to plant violations in."""

    def __init__(self, files):
        self.files = files

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        for path, text in self.files.items():
            full = os.path.join(self.folder.name, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as out:
                out.write(text)
        return self.folder.name

    def __exit__(self, *_):
        self.folder.cleanup()
