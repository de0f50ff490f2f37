// tombstones_of_words
MATCH (grave:@Tombstone) WHERE grave.scope IS NOT NULL AND grave.key =~ 'event:[^:]*:.*'
WITH grave.scope AS scope, 'facts:event:' + split(grave.key, ':')[1] AS key, grave
DELETE grave
WITH DISTINCT scope, key
MERGE (n:@Tombstone {scope: scope, key: key}) ON CREATE SET n.at = datetime()
