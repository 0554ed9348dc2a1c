"""app/commands/options.md is what --help of each command says; WORKBENCH_UPDATE_GOLDEN=1 rewrites it."""
import os
import re
import subprocess
import unittest

BINARY, SOURCE = os.environ["WORKBENCH_BINARY"], os.environ["WORKBENCH_SOURCE"]
PAGE = os.path.join(SOURCE, "app", "commands", "options.md")
HEAD = """# Options

What each command takes, as its `--help` says it. `tests/app/options_test.py` holds this page against the program.
"""


def help_of(*command):
    run = subprocess.run([BINARY, *command, "--help"], capture_output=True, text=True, timeout=120, check=True)
    return run.stdout.splitlines()


def commands():
    lines = help_of()
    return [line.split()[0] for line in lines[lines.index("Subcommands:") + 1:] if re.match(r"  \w", line)]


def rows(lines):
    """(heading, option, meaning) of each option; a long option has its meaning on the next line."""
    heading, found = None, []
    for line in lines:
        if re.fullmatch(r"\S.*:", line):
            heading = line[:-1]
        elif heading in (None, "Subcommands"):
            continue
        elif match := re.match(r"  (\S.*?)(?:  +(\S.*))?$", line):
            found.append([heading, match[1], match[2] or ""])
        elif match := re.match(r" {3,}(\S.*)", line):
            found[-1][2] = f"{found[-1][2]} {match[1]}".strip()
        else:
            heading = None  # the text below the options
    return [row for row in found if not row[1].startswith("-h,")]


def page():
    text = HEAD
    for command in commands():
        text += f"\n## {command}\n"
        last = None
        for heading, option, meaning in rows(help_of(command)):
            if heading != last:
                text += f"\n{heading} | Meaning\n---|---\n"
                last = heading
            text += f"`{option}` | {meaning}\n".replace("|", "\\|").replace("` \\| ", "` | ", 1)
    return text


class Options(unittest.TestCase):
    def test_the_page_is_what_the_program_takes(self):
        text = page()
        for part in ("## train", "`--lr TEXT`", "`-n,--n INT`", "also with --resume"):
            self.assertIn(part, text)
        if os.environ.get("WORKBENCH_UPDATE_GOLDEN"):
            with open(PAGE, "w", encoding="utf-8") as file:
                file.write(text)
        with open(PAGE, encoding="utf-8") as file:
            self.assertEqual(file.read(), text, "WORKBENCH_UPDATE_GOLDEN=1 rewrites the page")


if __name__ == "__main__":
    unittest.main()
