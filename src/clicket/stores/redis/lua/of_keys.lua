-- Calls by their keys; those that are not there are left out.
local rows = {}
for _, key in ipairs(ask.keys) do
  rows[#rows + 1] = row_of(key)
end
return rows
