-- What is counted, and which threads have more than they may: {thread, calls, bytes}.
local threads, seen = {}, {}
local function over(scores, bound)
  for _, thread in ipairs(bound and call('ZRANGEBYSCORE', base .. scores, '(' .. bound, '+inf') or {}) do
    if not seen[thread] then
      seen[thread] = true
      threads[#threads + 1] = {
        thread, call('ZSCORE', base .. 'thread_calls', thread) or '0', call('ZSCORE', base .. 'thread_bytes', thread) or '0',
      }
    end
  end
end
over('thread_calls', ask.thread_calls)
over('thread_bytes', ask.thread_bytes)
local counted = call('HMGET', meta, 'ended_bytes', 'artifact_bytes', 'cache_bytes', 'hits', 'misses', 'evictions')
return {call('ZCARD', base .. 'ended'), call('ZCARD', base .. 'all'), call('ZCARD', base .. 'cached'), counted, threads}
