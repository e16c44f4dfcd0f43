-- k is raised by what may fall out afterwards: stale rows, and facts not valid then
nearest as materialized (
  select entity_id as x, distance * distance / 2 as d from _limbic_vec_entities
  where embedding match limbic_embed(:q)
    and archived <= (:include_archived = '1')
    and k = (select min(4096, k + invalid
      + (select count(*) from limbic_stale where collection = 'entities')) from p) /*type*/
)
