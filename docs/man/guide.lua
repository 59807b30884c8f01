-- SPDX-License-Identifier: BSD-3-Clause
-- pandoc filter: a document of docs/ becomes the manual page viaduct-NAME(7).
-- Links to other documents become names of their pages, pictures their descriptions.

local name -- of this page, such as viaduct-concepts

local function page_of(address)
  if address:match("^%a+:") then return nil end
  local file = address:gsub("#.*", ""):gsub("^docs/", "")
  local manual, section = file:match("^man/(.+)%.(%d)%.md$")
  if manual then return manual .. "(" .. section .. ")" end
  local document = file:match("^([%w-]+)%.md$")
  return document and "viaduct-" .. document .. "(7)"
end

local function link(element)
  local page = page_of(element.target)
  if not page then return element.content end -- a file of the sources, or a heading of this page
  if pandoc.utils.stringify(element.content) == page then return pandoc.Strong(element.content) end
  local words = element.content
  words:extend({ pandoc.Space(), pandoc.Str("("), pandoc.Strong({ pandoc.Str(page) }), pandoc.Str(")") })
  return words
end

local function picture(element)
  local words = pandoc.List({ pandoc.Str("[") })
  words:extend(element.caption)
  words:insert(pandoc.Str("]"))
  return pandoc.Emph(words)
end

-- Narrow columns of prose are no pleasure to read: a row becomes an item, its first cell the term.
local function table_of_prose(element)
  local simple = pandoc.utils.to_simple_table(element)
  local widths = pandoc.List()
  for _, row in ipairs({ simple.headers, table.unpack(simple.rows) }) do
    for column, cell in ipairs(row) do
      widths[column] = math.max(widths[column] or 0, #pandoc.utils.stringify(pandoc.Div(cell)) + 3)
    end
  end
  local whole = 0
  for _, width in ipairs(widths) do whole = whole + width end
  if whole < 72 then return nil end
  local items = pandoc.List()
  for _, row in ipairs(simple.rows) do
    local said = pandoc.List()
    for column = 2, #row do
      local words = pandoc.List()
      if #row > 2 and #simple.headers[column] > 0 then
        words:insert(pandoc.Emph(pandoc.utils.blocks_to_inlines(simple.headers[column])))
        words:extend({ pandoc.Str(":"), pandoc.Space() })
      end
      words:extend(pandoc.utils.blocks_to_inlines(row[column]))
      if #row[column] > 0 then said:insert(pandoc.Para(words)) end
    end
    items:insert({ { pandoc.Strong(pandoc.utils.blocks_to_inlines(row[1])) }, { said } })
  end
  return pandoc.DefinitionList(items)
end

-- In a manual page only the parts of the text are headings of the first level.
local function head(document)
  local title = "Viaduct"
  local blocks = pandoc.List()
  for _, block in ipairs(document.blocks) do
    if block.t == "Header" and block.level == 1 then
      title = pandoc.utils.stringify(block.content)
    else
      if block.t == "Header" then block.level = block.level - 1 end
      blocks:insert(block)
    end
  end
  local first = pandoc.List({
    pandoc.Header(1, { pandoc.Str("NAME") }),
    pandoc.Para({ pandoc.Str(name .. " - " .. title) }),
  })
  if blocks[1] and blocks[1].t ~= "Header" then first:insert(pandoc.Header(1, { pandoc.Str("DESCRIPTION") })) end
  first:extend(blocks)
  document.blocks = first
  document.meta.title = pandoc.MetaString(name:upper())
  document.meta.section = pandoc.MetaString("7")
  document.meta.header = pandoc.MetaString("Viaduct Manual")
  document.meta.footer = pandoc.MetaString("Viaduct")
  return document
end

return {
  { Meta = function(meta) name = pandoc.utils.stringify(meta.page) end },
  { Link = link, Image = picture },
  { Table = table_of_prose },
  { Pandoc = head },
}
