"""Stan programs as users edit them."""

from bdr_stan.cmdstan.programs import program_path


def edited(folder, *changes, name="bdr"):
    """A plain program with texts replaced, each of which must be there."""
    text = program_path(name, fast=False).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "my_program.stan"
    path.write_text(text)
    return path
