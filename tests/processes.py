"""What /proc says of other processes, and what they say."""
import re


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def alive(pid):
    """Whether it still runs: one that nobody waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def own_words(stderr):
    """Without what a sanitizer says of memory that is refused."""
    return re.sub(r"^==\d+==WARNING: AddressSanitizer failed.*\n", "", stderr, flags=re.M)
