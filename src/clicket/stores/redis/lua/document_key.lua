-- Documents: a hash for each, and a list of their keys for each kind.
local function document_key(kind, key)
  return base .. 'document:' .. #kind .. ':' .. kind .. key
end
