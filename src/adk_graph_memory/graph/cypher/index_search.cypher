// search_indexes @database
// a row for each vector and full-text index of the database, whoever made it
SHOW INDEXES YIELD name, type, entityType, labelsOrTypes, properties, options WHERE type IN ['VECTOR', 'FULLTEXT']
RETURN name, toLower(type) AS type, entityType = 'NODE' AS is_of_nodes, labelsOrTypes AS labels, properties,
  options.indexConfig.`vector.dimensions` AS dimensions
ORDER BY type DESC, name

// fulltext_search @fragment
// node and score of the best hits
CALL db.index.fulltext.queryNodes($fulltext_index_name, $query_text, {limit: $top_k}) YIELD node, score

// fulltext_hits @fragment
// node and score of all hits; a filter follows
CALL db.index.fulltext.queryNodes($fulltext_index_name, $query_text) YIELD node, score
WITH node, score

// best_hits @fragment
// node and score of the best of the hits before
WITH node, score ORDER BY score DESC LIMIT $top_k

// found_node @fragment
// the node's properties
RETURN node {.*} AS node, labels(node) AS nodeLabels, elementId(node) AS elementId, score
