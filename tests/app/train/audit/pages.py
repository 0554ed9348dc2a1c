"""What stands in a page of `report --html`."""
from html.parser import HTMLParser


class Curve:
    """A picture: lines as (model, points) and groups as [name, median, band] in the order drawn, the labels of its axes as
    (text, place), the legend, what stands below."""

    def __init__(self):
        self.lines, self.groups, self.x_axis, self.y_axis, self.legend, self.caption = [], [], [], [], [], ""

    def put(self, kind, shape, points):
        if kind == "curve":
            self.lines[-1][1].extend(points)
        elif kind == "group":
            self.groups[-1][2 if shape == "polygon" else 1].extend(points)


class Page(HTMLParser):
    """`texts`: (tag, words) outside tables and pictures; `tables`: rows of cells by kind; `curves`: by name."""

    def __init__(self):
        super().__init__()
        self.texts, self.tables, self.curves = [], {}, {}
        self.open, self.rows, self.curve, self.kinds, self.at = [], None, None, [], None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "meta":
            return
        self.open.append(tag)
        if tag == "table":
            self.rows = self.tables.setdefault(attributes["data-kind"], [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "svg":
            self.curve = Curve()
        elif tag == "g":
            self.kinds.append(attributes.get("data-kind"))
        elif tag == "text":
            self.at = float(attributes["x"]), float(attributes["y"])

    def handle_startendtag(self, tag, attributes):
        attributes, kind = dict(attributes), self.kinds[-1] if self.kinds else None
        if tag in ("polyline", "polygon"):
            self.curve.put(kind, tag, [tuple(map(float, point.split(","))) for point in attributes["points"].split()])
        elif tag == "circle":  # of a single evaluation
            self.curve.put(kind, tag, [(float(attributes["cx"]), float(attributes["cy"]))])

    def handle_endtag(self, tag):
        if tag == "g":
            self.kinds.pop()
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not data.strip() or not self.open or {"style", "script"} & set(self.open):
            return
        where, kind = self.open[-1], self.kinds[-1] if self.kinds else None
        if where in ("td", "th"):
            self.rows[-1][-1] += data
        elif "svg" not in self.open:
            self.texts.append((where, data.strip("\n")))
        elif where == "title" and kind is None:
            self.curves[self.texts[-1][1]] = self.curve  # by the heading above it
        elif where == "title" and kind == "curve":
            self.curve.lines.append((int(data.removeprefix("model ")), []))
        elif where == "title" and kind == "group":
            self.curve.groups.append((data, [], []))
        elif where == "title":
            pass
        elif kind == "x-axis":
            self.curve.x_axis.append((data, self.at[0]))
        elif kind == "y-axis":
            self.curve.y_axis.append((data, self.at[1] - 4))  # a label's foot is that much below its place
        elif kind == "legend":
            self.curve.legend.append(data)
        else:
            self.curve.caption += data


def page_fields(text):
    page = Page()
    page.feed(text)
    return page
