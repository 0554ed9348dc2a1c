"""What stands in a page of `report --html`."""
from html.parser import HTMLParser


class Page(HTMLParser):
    """`texts`: (tag, words) outside tables and curves; `tables`: rows of cells; `curves`: by name {model: points};
    `labels`: by name the texts beside a curve."""

    def __init__(self):
        super().__init__()
        self.texts, self.tables, self.curves, self.labels = [], [], {}, {}
        self.open, self.name, self.points = [], None, None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag in ("meta", "line", "rect", "circle", "path", "br"):
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "svg":
            self.name = None
        elif tag == "polyline":
            self.points = [tuple(float(number) for number in point.split(",")) for point in attributes["points"].split()]

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not data.strip() or "style" in self.open:
            return
        where = self.open[-1]
        if where in ("td", "th"):
            self.tables[-1][-1][-1] += data
        elif "svg" not in self.open:
            self.texts.append((where, data.strip("\n")))
        elif "polyline" in self.open:
            self.curves[self.name][int(data.removeprefix("model "))] = self.points
        elif where == "title":
            self.name = data
            self.curves[data], self.labels[data] = {}, []
        else:
            self.labels[self.name].append(data)


def page_fields(text):
    page = Page()
    page.feed(text)
    return page
