hits as materialized (
  select json_extract(value, '$[0]') as doc, json_extract(value, '$[1]') as score
  from p cross join json_each(limbic_hits('{retriever}', :q, {per_candidate} * k))
)
