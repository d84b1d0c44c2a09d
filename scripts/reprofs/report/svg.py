"""The SVG that matplotlib writes, in two fifths of its bytes: a report has dozens of figures."""

import hashlib
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

# Words are text. DejaVu Sans comes with matplotlib, which PDF has it from; Verdana is as wide.
FONTS = "'DejaVu Sans',Verdana,sans-serif"
MONO = "'DejaVu Sans Mono'"
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
TEXT, USE, GROUP, LINK = f"{{{SVG}}}text", f"{{{SVG}}}use", f"{{{SVG}}}g", f"{{{XLINK}}}href"
NUMBERS = {"d", "x", "y", "transform"}

ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)


def small(text: str) -> str:
    """The same figure: numbers to a hundredth of a point, short names, no blanks, and nothing that cannot be seen."""
    root = ElementTree.fromstring(text)
    for element in root.findall(f"{{{SVG}}}metadata"):
        root.remove(element)
    for element in root.iter(f"{{{SVG}}}style"):
        element.text = f"{element.text}text{{font-family:{FONTS}}}"
    referred = dict.fromkeys(re.findall(r'(?:href="|url\()#(\w+)', text))  # clip paths and markers
    names = {name: f"i{number}" for number, name in enumerate(referred)}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.get("style") == "fill: none" and child.get("id") not in names:
                parent.remove(child)
        parent.tail = None
        if parent.tag != TEXT and not (parent.text or "").strip():
            parent.text = None
        _shorten(parent, names)
    for parent in root.iter():
        styles = {child.get("style") for child in parent}
        if len(styles) == 1 and all(child.tag == USE for child in parent):  # said once for all of them
            parent.set("style", styles.pop() or "")
            for child in parent:
                child.attrib.pop("style", None)
    _flat(root)
    # pandoc puts it before the names of the parts, so that those of two figures are not the same. It is of what is
    # written: the last digits of what matplotlib wrote differ between processors.
    root.set("id", f"f{hashlib.sha256(ElementTree.tostring(root)).hexdigest()[:6]}")
    _classes(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _flat(element: ElementTree.Element) -> None:
    """Without groups that say nothing of what is in them."""
    parts: list[ElementTree.Element] = []
    for child in list(element):
        _flat(child)
        parts += [child] if child.tag != GROUP or child.attrib else list(child)
        element.remove(child)
    element.extend(parts)


def _classes(root: ElementTree.Element) -> None:
    """Styles that come again become classes, of names that no other figure of a page has."""
    counts = Counter(element.get("style", "") for element in root.iter())
    names = {style: f"{root.get('id')}{number}" for number, style in enumerate(counts) if style and counts[style] > 1}
    for element in root.iter():
        if name := names.get(element.get("style", "")):
            element.set("class", name)
            del element.attrib["style"]
    for element in root.iter(f"{{{SVG}}}style"):
        element.text = f"{element.text}{''.join(f'.{name}{{{style}}}' for style, name in names.items())}"


def _shorten(element: ElementTree.Element, names: dict[str, str]) -> None:
    for key, value in list(element.attrib.items()):
        if key in NUMBERS:
            value = " ".join(re.sub(r"\d+\.\d+", _rounded, value).split())
        elif key == "style":
            value = re.sub(r"([:;]) ", r"\1", value.replace("font-family: 'DejaVu Sans'; ", ""))
            value = value.replace(MONO, f"{MONO},Menlo,Consolas,monospace")
        elif key in (LINK, "clip-path"):
            value = re.sub(r"(?<=#)\w+", lambda name: names[name[0]], value)
        elif key == "id":
            value = names.get(value, "")
        element.set(key, value)
        if not value or value.startswith("rotate(-0 "):
            del element.attrib[key]


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
