"""Whether every link inside the built pages leads to a place: python docs/check_links.py FOLDER."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Links of a page and the places on it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id":
                self.places.add(value)


def broken_links(folder):
    """Pairs of a page and a link of it that leads nowhere."""
    pages = {path.resolve(): _Page(path.read_text()) for path in Path(folder).rglob("*.html")}
    for path, page in pages.items():
        for link in sorted(page.links):
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            place = unquote(address.fragment)
            if not target.exists() or (
                place and target in pages and place not in pages[target].places
            ):
                yield path.name, link


if __name__ == "__main__":
    found = list(broken_links(sys.argv[1]))
    for page, link in found:
        print(f"{page}: {link} leads nowhere")
    sys.exit(bool(found))
