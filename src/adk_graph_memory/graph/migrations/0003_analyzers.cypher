// memory_text_of_one_analyzer
DROP INDEX @memory_text IF EXISTS
