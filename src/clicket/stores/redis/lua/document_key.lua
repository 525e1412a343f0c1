-- Papers: a hash for each, and a list of their keys for each kind.
local function paper_key(kind, key)
  return base .. 'paper:' .. #kind .. ':' .. kind .. key
end
