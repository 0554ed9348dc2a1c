"""What /proc says of other processes, and what they say."""
import os
import re


def children(pid):
    """Those that any of its threads has started."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread has ended, perhaps between opening and reading
    return found


def alive(pid):
    """Whether it still runs: one that nobody waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def own_words(stderr):
    """Without what a sanitizer says of memory that is refused."""
    return re.sub(r"^==\d+==WARNING: AddressSanitizer failed.*\n", "", stderr, flags=re.M)
