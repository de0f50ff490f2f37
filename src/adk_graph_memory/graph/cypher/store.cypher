// ownerless_nodes @database @unbounded
// one row: how many nodes belong to a user whom the graph does not know
CALL () {
  MATCH (n:@Memory) WHERE n.scope IS NOT NULL RETURN n.scope AS scope
  UNION ALL MATCH (n:@Entity) WHERE n.scope IS NOT NULL RETURN n.scope AS scope
  UNION ALL MATCH (n:@Ingest) WHERE n.scope IS NOT NULL RETURN n.scope AS scope
  UNION ALL MATCH (n:@Session) WHERE n.scope IS NOT NULL RETURN n.scope AS scope
}
WITH scope, count(*) AS nodes
WHERE NOT EXISTS { MATCH (:@User {scope: scope}) }
RETURN coalesce(sum(nodes), 0) AS nodes
