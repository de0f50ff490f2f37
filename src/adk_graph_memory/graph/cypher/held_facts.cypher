// held_readings
// a row for each window with facts that a guard holds, in the order of writing: what was read, and its turns that nobody has
// read again since
MATCH (i:@Ingest {scope: $scope, state: 'done'})
WHERE i.held > 0
RETURN i.reading AS reading, i.done_at AS at,
       COLLECT { MATCH (i)-[:READS]->(e:@Event) WHERE e.ingest = i.id RETURN e {.memory_id, .author, .origin, .own_text} } AS turns
ORDER BY i.written
