-- One filter for both formats: executed notebooks in, a document out.
-- 1. Code cells become their outputs; in HTML the code behind a figure or table is folded away beside it.
-- 2. Outputs in Markdown and HTML are parsed, so that tables and figures are native in both formats.
-- 3. Figures and tables are numbered in their order, and links to them ([table](#tbl-x)) get that number as words.

local html = FORMAT:match("html") ~= nil
-- Markdown as JupyterLab reads it, but that HTML in it is text. What is not named here is off.
local readers = { html = "html", markdown = "commonmark-raw_html+gfm_auto_identifiers+pipe_tables+smart" }
local numbers, counts = {}, { Figure = 0, Table = 0 }

local function tagged(cell, tag)
  return (cell.attributes.tags or ""):find('"' .. tag .. '"', 1, true) ~= nil
end

-- A notebook has its figures in itself; here they are the files that were drawn for the report.
local function from_file(image)
  local name = image.attributes.figure
  if not name or name:find("[/\\.]") then return nil end
  local kind = image.attributes.kind -- of a figure that the report did not draw: it is shown, never part of the page
  if kind and kind:match("^%a+$") then
    local attributes = html and { style = "max-width: 100%; height: auto" } or {} -- no wider than a phone
    return pandoc.Image(image.caption, "../figures/" .. name .. "." .. kind, "", pandoc.Attr("", {}, attributes))
  end
  return pandoc.Image(image.caption, "../figures/" .. name .. ".svg", "", pandoc.Attr("", { "inline-svg" }))
end

-- Whatever a notebook shows, no other file and no address is read for it, nothing of it is code, and links lead to the
-- web or into the report.
local inert = {
  Image = function(image)
    local own = image.src:match("^%.%./figures/[^/\\]+%.%a+$") or pandoc.mediabag.lookup(image.src)
    return not own and image.caption or nil
  end,
  Link = function(link) return not (link.target:match("^https?://") or link.target:match("^#")) and link.content or nil end,
  RawBlock = function() return {} end,
  RawInline = function() return {} end,
}

-- The sides of a table's columns are classes of its cells.
local function aligned(element)
  local body = element.bodies[1] and element.bodies[1].body[1]
  local right = {}
  for i, one in ipairs(body and body.cells or {}) do
    right[i] = one.attr.classes:includes("right")
    if not html then element.colspecs[i] = { right[i] and pandoc.AlignRight or pandoc.AlignLeft, element.colspecs[i][2] } end
  end
  local function plain(rows)
    for _, row in ipairs(rows) do
      for i, one in ipairs(row.cells) do one.attr = pandoc.Attr("", right[i] and { "right" } or {}) end
    end
  end
  plain(element.head.rows)
  for _, one in ipairs(element.bodies) do plain(one.body) end
  return element
end

-- The richest representation of an output: HTML, then Markdown; plain text only if there is nothing else.
local function parse(output)
  for _, format in ipairs({ "html", "markdown" }) do
    for _, block in ipairs(output.content) do
      if block.t == "RawBlock" and block.format == format then
        local text = block.text:gsub("<style.-</style>", ""):gsub("</?[iI][fF][rR][aA][mM][eE].->", "")
        local found = pandoc.read(text, readers[format], PANDOC_READER_OPTIONS, {}) -- of no files
        return found.blocks:walk({ Image = from_file, Table = aligned })
      end
    end
  end
  return output.content
end

local function shows_figure_or_table(blocks)
  local found = false
  local function yes() found = true end
  blocks:walk({ Figure = yes, Table = yes })
  return found
end

local taken = {}
local function cell(div)
  if not div.classes:includes("cell") then return nil end
  if tagged(div, "parameters") or tagged(div, "injected-parameters") then return {} end
  local appendix = div.attributes.appendix
  local blocks, code = pandoc.Blocks({}), nil
  for _, block in ipairs(div.content) do
    if block.t == "CodeBlock" and div.classes:includes("code") then
      code = block
    elseif block.t == "Div" and block.classes:includes("output") then
      if not block.classes:includes("stream") then blocks:extend(parse(block)) end
    else
      blocks:insert(block)
    end
  end
  blocks = blocks:walk(inert)
  if html and code and shows_figure_or_table(blocks) then
    blocks:insert(pandoc.RawBlock("html", '<details class="code"><summary>Code</summary>'))
    blocks:insert(code)
    blocks:insert(pandoc.RawBlock("html", "</details>"))
  end
  -- The anchors of an appendix are its own; a heading that comes again gets a number, as within one document.
  local function own(identifier)
    if identifier == "" then return identifier end
    if appendix then identifier = appendix:lower() .. "-" .. identifier end
    taken[identifier] = (taken[identifier] or 0) + 1
    return taken[identifier] == 1 and identifier or identifier .. "-" .. (taken[identifier] - 1)
  end
  -- A notebook is a section: its title is one level down.
  return blocks:walk({
    Header = function(header)
      header.identifier = own(header.identifier)
      if header.level == 1 and appendix then header.content:insert(1, pandoc.Str("Appendix " .. appendix .. ". ")) end
      header.level = header.level + 1
      return header
    end,
  })
end

local function number(kind)
  return function(element)
    local caption = element.caption.long
    if #caption == 0 then return nil end
    counts[kind] = counts[kind] + 1
    local name = kind .. " " .. counts[kind]
    if element.identifier ~= "" then numbers[element.identifier] = name end
    local first = pandoc.Strong({ pandoc.Str(name .. ".") })
    caption[1] = pandoc.Plain(pandoc.Inlines({ first, pandoc.Space() }) .. caption[1].content)
    element.caption.long = caption
    return element
  end
end

local function refer(link)
  if not (link.target:match("^#tbl%-") or link.target:match("^#fig%-")) then return nil end
  local name = numbers[link.target:sub(2)]
  if not name then error("no figure or table is named " .. link.target) end
  link.content = { pandoc.Str((name:gsub(" ", "\u{a0}"))) }
  return link
end

-- No line ends between a number and its unit, or beside an equals sign.
local units = { ns = true, ["µs"] = true, ms = true, s = true, B = true, KiB = true, MiB = true, GiB = true, ["%"] = true }
local function bind(inlines)
  for i = 2, #inlines - 1 do
    local before, after = inlines[i - 1], inlines[i + 1]
    if inlines[i].t == "Space" and before.t == "Str" and after.t == "Str" then
      if before.text:match("=$") or after.text == "=" then
        inlines[i] = pandoc.Str("\u{a0}")
      elseif before.text:match("%d$") and units[(after.text:gsub("[.,;:)]+$", ""))] then
        inlines[i] = pandoc.Str("\u{a0}")
      end
    end
  end
  return inlines
end

-- How wide words are when printed, in em of the page's typeface, nearly.
local function em(words, code)
  local wide = 0
  for _, point in utf8.codes(words) do
    local letter = point < 128 and string.char(point) or ""
    if code then wide = wide + 0.65
    elseif letter:match("[ijltfr.,:;'()|%s%-]") then wide = wide + 0.3
    elseif letter:match("[%umw%%+@]") then wide = wide + 0.72
    else wide = wide + 0.48 end
  end
  return wide
end

-- The least width of a cell, that of its longest word (which may end at a hyphen or not), and the most, that of its
-- longest line.
local function extent(one, hyphens)
  local least, line, word, most = 0, 0, 0, 0
  local function ends(of_line)
    least, word = math.max(least, word), 0
    if of_line then most, line = math.max(most, line), 0 end
  end
  local function add(words, code)
    for part in words:gsub("[,=:/%-]", code and "%0\n" or { ["-"] = hyphens and "-\n" }):gmatch("[^\n]+\n?") do
      local wide = em(part:gsub("\n", ""), code)
      line, word = line + wide, word + wide
      if part:sub(-1) == "\n" then ends(false) end
    end
  end
  for _, block in ipairs(one.contents) do
    block:walk({
      traverse = "topdown",
      Str = function(str) add(str.text) end,
      Code = function(code) for part in code.text:gmatch("%S+%s*") do add(part, true) ends(false) end end,
      Space = function() line = line + 0.25 ends(false) end,
      SoftBreak = function() line = line + 0.25 ends(false) end,
      LineBreak = function() ends(true) end,
    })
    ends(true)
  end
  return least, most
end

-- Columns of a printed table that is wider than the page: each gets its longest word, and of the rest the more the more
-- it has to say (as CSS 2.1, 17.5.2.2). If there is room, numbers stay on one line and words whole.
local PAGE = 493 -- points
local ways = { { numbers = true }, {}, { hyphens = true } }
local function shared(size, inset)
  local function look(element, way)
    local least, most, low, high = {}, {}, 0, 0
    local function add(rows, numbers)
      for _, row in ipairs(rows) do
        for i, one in ipairs(row.cells) do
          local a, b = extent(one, way.hyphens)
          if numbers and element.colspecs[i][1] == pandoc.AlignRight then a = b end
          least[i], most[i] = math.max(least[i] or 0, a), math.max(most[i] or 0, b)
        end
      end
    end
    add(element.head.rows, false)
    for _, one in ipairs(element.bodies) do add(one.body, way.numbers) end
    for i = 1, #least do low, high = low + least[i], high + most[i] end
    return least, most, low, high
  end
  return function(element)
    for _, way in ipairs(ways) do
      local least, most, low, high = look(element, way)
      local room = (PAGE - 2 * inset * #least) / size
      if high <= room then return nil end
      if low < room then
        for i = 1, #least do
          local own = least[i] + (room - low) * (most[i] - least[i]) / (high - low)
          element.colspecs[i] = { element.colspecs[i][1], (own * size + 2 * inset) / PAGE }
        end
        return element
      end
    end
    return nil
  end
end

-- A region that scrolls sideways and can be reached by keyboard, named by the first words of its caption. Pairs, not a
-- table: attributes keep their order.
local function scrolling(content, caption)
  local label = pandoc.utils.stringify(caption):match("^%a+ %d+") or (content[1].t == "Table" and "Table" or "Figure")
  local attributes = { { "tabindex", "0" }, { "role", "region" }, { "aria-label", label } }
  return pandoc.Div(content, pandoc.Attr("", { "scroll" }, attributes))
end

-- What the cells of a column have in common stands once, in a class of the tables with such columns: a report has
-- thousands of cells. On a narrow screen a row is a paragraph, and each cell needs the title of its column.
local styles, classes, number_of_classes = pandoc.List({}), {}, 0
local function columns(element)
  local rules = pandoc.List({})
  for i, one in ipairs(element.head.rows[1] and element.head.rows[1].cells or {}) do
    local place = "tr>:nth-child(" .. i .. "){"
    local title = pandoc.utils.stringify(one.contents):gsub('[\\"<\n]', function(c) return ("\\%x "):format(c:byte()) end)
    rules:insert(place .. '--name:"' .. title .. '"' .. (one.attr.classes:includes("right") and ";text-align:right}" or "}"))
  end
  local key = table.concat(rules)
  if not classes[key] then
    number_of_classes = number_of_classes + 1
    classes[key] = "columns-" .. number_of_classes
    for _, rule in ipairs(rules) do styles:insert("." .. classes[key] .. " " .. rule) end
  end
  local function plain(rows)
    for _, row in ipairs(rows) do
      for _, one in ipairs(row.cells) do one.attr = pandoc.Attr() end
    end
  end
  plain(element.head.rows)
  for _, one in ipairs(element.bodies) do plain(one.body) end
  element.attr.classes:insert(classes[key])
  return element
end

-- In HTML a table scrolls sideways inside a box of its own, with its caption outside.
local function box(element)
  local caption = element.caption.long
  if not html then return nil end
  if #caption == 0 then return scrolling({ element }, "") end
  element = columns(element)
  local identifier = element.identifier
  element.caption, element.identifier = {}, ""
  return pandoc.Figure({ scrolling({ element }, caption) }, { long = caption }, pandoc.Attr(identifier, { "table" }))
end

-- Likewise a figure, whose text must not shrink on a phone.
local function frame(element)
  if not html or element.classes:includes("table") then return nil end
  element.content = { scrolling(element.content, element.caption.long) }
  return element
end

-- The words for those who cannot see a figure; pandoc's typst writer leaves them out.
local function describe(image)
  if html then return nil end
  local words = pandoc.utils.stringify(image.caption):gsub('[\\"]', "\\%0")
  return pandoc.RawInline("typst", '#image("' .. image.src .. '", alt: "' .. words .. '")')
end

-- Bold words alone on a line lead to what follows, so no page ends with them.
local function lead(para)
  if html or #para.content ~= 1 or para.content[1].t ~= "Strong" then return nil end
  return { pandoc.RawBlock("typst", "#block(sticky: true, spacing: 0.9em)["), para, pandoc.RawBlock("typst", "]") }
end

-- A paragraph right before a figure stays on its page, and with it the heading above.
local function led(blocks)
  local found = pandoc.Blocks({})
  for number, block in ipairs(blocks) do
    local after = blocks[number + 1]
    local sticks = not html and block.t == "Para" and after and after.t == "Figure"
    if sticks then found:insert(pandoc.RawBlock("typst", "#block(sticky: true)[")) end
    found:insert(block)
    if sticks then found:insert(pandoc.RawBlock("typst", "]")) end
  end
  return found
end

-- After a dash a line may end even at a no-break space (rule LB12a of Unicode): a word joiner keeps an interval together.
local function joined(str)
  str.text = str.text:gsub("–\u{a0}", "–\u{2060}\u{a0}")
  return str
end

function Pandoc(doc)
  local body = pandoc.Blocks({})
  local dense = html
  local widths = shared(8, 3.2) -- as in template.typ
  for _, block in ipairs(doc.blocks) do
    -- What is printed from the first appendix on is small.
    if not dense and block.attributes and block.attributes.appendix then
      body:insert(pandoc.RawBlock("typst", "#show: appendices"))
      dense, widths = true, shared(6.3, 2.6)
    end
    local found = pandoc.Blocks(cell(block) or { block })
    body:extend(html and found or found:walk({ Table = widths }))
  end
  body = body:walk({ traverse = "topdown", Figure = number("Figure"), Table = number("Table") })
  body = body:walk({ Link = refer, Inlines = bind, Image = describe, Para = lead, Str = joined })
  doc.blocks = led(body):walk({ Figure = frame }):walk({ Table = box })
  doc.meta.columns = pandoc.MetaBlocks({ pandoc.RawBlock("html", table.concat(styles, "\n")) })
  return doc
end
