-- Tell what of budgets is used up: by a session's user, in the hour, week or month of so many seconds ('': today), and by the
-- session; of each tokens and millionths of a US dollar.
-- KEYS session
-- ARGV per_s
local spent = shared_spending(session, per_s ~= '' and per_s)
local said = {}
for _, name in ipairs({SHARED}) do said[#said + 1] = whole(spent[name]) end
return said
