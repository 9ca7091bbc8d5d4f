-- Strings: patterns, long values, unicode, empty and NULL, ordering by bytes, IN lists.

-- @table s_long partition_by=p
CREATE TABLE s_long (p INT, s VARCHAR);
INSERT INTO s_long SELECT 1, repeat('x', 64) || repeat('a', 36);
INSERT INTO s_long SELECT 2, repeat('x', 64) || repeat('b', 36);

-- @table s_long_same partition_by=p
CREATE TABLE s_long_same (p INT, id INT, s VARCHAR);
INSERT INTO s_long_same SELECT 1, value, repeat('y', 100) || CAST(value AS VARCHAR) FROM generate_series(100, 199) AS g(value);

-- @table s_t partition_by=bucket(4, s)
CREATE TABLE s_t (id INT, s VARCHAR);
INSERT INTO s_t VALUES (1, 'apple'), (2, 'Apple'), (3, ''), (4, NULL), (5, 'banana split'), (6, '100%'), (7, 'a_b'), (8, 'äpfel'), (9, '日本語'), (10, 'zebra'), (11, ' apple '), (12, 'a longer string that does not fit inline'), (13, 'naïve'), (14, '😀 smile'), (15, 'APPLE');

-- @table s_in partition_by=bucket(3, i)
CREATE TABLE s_in (i INT, s VARCHAR);
INSERT INTO s_in VALUES (1, 'a'), (2, 'b'), (3, 'c'), (NULL, 'd'), (5, NULL), (6, 'a longer string that is not inlined'), (2, 'a');

-- @table s_big partition_by=bucket(4, k)
CREATE TABLE s_big (k VARCHAR, v BIGINT);
INSERT INTO s_big SELECT 'key-with-a-long-common-prefix-' || CAST(value % 50 AS VARCHAR), value FROM generate_series(1, 1000) AS g(value);

-- @query S31_min_max_long
SELECT min(s), max(s) FROM s_long
-- @expect
xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa	xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb

-- @query S31_min_max_long_lengths
SELECT length(min(s)), length(max(s)), min(s) < max(s) FROM s_long
-- @expect
100	100	true

-- @query S31_min_max_per_partition
SELECT p, min(s) = max(s), length(max(s)), right(max(s), 1) FROM s_long GROUP BY p
-- @expect
1	true	100	a
2	true	100	b

-- @query S31_min_max_one_partition
SELECT length(min(s)), right(min(s), 3), right(max(s), 3) FROM s_long_same
-- @expect
103	100	199

-- @query S31_equality_beyond_prefix
SELECT p FROM s_long WHERE s = repeat('x', 64) || repeat('b', 36)
-- @expect
2

-- @query S31_greater_than_prefix
SELECT p FROM s_long WHERE s > repeat('x', 64)
-- @expect
1
2

-- @query S31_greater_than_low_value
SELECT p FROM s_long WHERE s > repeat('x', 64) || repeat('a', 36)
-- @expect
2

-- @query S31_order_of_long ordered
SELECT p FROM s_long ORDER BY s DESC
-- @expect
2
1

-- @query S31_top_of_long ordered
SELECT id FROM s_long_same ORDER BY s DESC LIMIT 3
-- @expect
199
198
197

-- @query S31_range_of_long
SELECT count(*) FROM s_long_same WHERE s >= repeat('y', 100) || '150'
-- @expect
50

-- @query S25_in_list_strings
SELECT i, s FROM s_in WHERE s IN ('a', 'b')
-- @expect
1	a
2	b
2	a

-- @query S25_in_list_int_with_null
SELECT i, s FROM s_in WHERE i IN (1, 2, NULL)
-- @expect
1	a
2	b
2	a

-- @query S25_not_in_list_int_with_null
SELECT i, s FROM s_in WHERE i NOT IN (1, 2, NULL)
-- @expect

-- @query S25_not_in_list_strings
SELECT i, s FROM s_in WHERE s NOT IN ('a', 'b')
-- @expect
3	c
NULL	d
6	a longer string that is not inlined

-- @query S25_in_list_long_string
SELECT i FROM s_in WHERE s IN ('zz', 'a longer string that is not inlined')
-- @expect
6

-- @query S25_in_list_strings_with_null
SELECT i FROM s_in WHERE s IN ('c', NULL)
-- @expect
3

-- @query S25_in_list_three_valued
SELECT i, i IN (1, NULL), i NOT IN (1, NULL), s IN ('a', NULL) FROM s_in
-- @expect
1	true	false	true
2	NULL	NULL	NULL
3	NULL	NULL	NULL
NULL	NULL	NULL	NULL
5	NULL	NULL	NULL
6	NULL	NULL	NULL
2	NULL	NULL	true

-- @query S25_in_list_expression
SELECT i FROM s_in WHERE upper(s) IN ('A', 'C') AND i + 0 IN (1, 3)
-- @expect
1
3

-- @query S25_in_list_many_values
SELECT count(*) FROM s_in WHERE i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) AND s IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')
-- @expect
4

-- @query S25_q16_shape
SELECT s, count(DISTINCT i) AS c FROM s_in WHERE s <> 'c' AND s NOT LIKE 'd%' AND i IN (1, 2, 3, 6, 49) AND i NOT IN (SELECT id FROM s_t WHERE s LIKE '%banana%') GROUP BY s
-- @expect
a	2
b	1
a longer string that is not inlined	1

-- @query S25_in_list_after_join
SELECT t.id, x.i FROM s_t t JOIN s_in x ON t.id = x.i WHERE x.s IN ('a', 'b', 'c') AND t.s IN ('apple', 'Apple')
-- @expect
1	1
2	2
2	2

-- @query str_rows rows=15
SELECT id, s FROM s_t

-- @query str_like_prefix
SELECT id FROM s_t WHERE s LIKE 'a%'
-- @expect
1
7
12

-- @query str_like_suffix
SELECT id FROM s_t WHERE s LIKE '%e'
-- @expect
1
2
12
13
14

-- @query str_like_contains
SELECT id FROM s_t WHERE s LIKE '%ppl%'
-- @expect
1
2
11

-- @query str_like_one_char
SELECT id FROM s_t WHERE s LIKE 'a_b'
-- @expect
7

-- @query str_like_escaped
SELECT id FROM s_t WHERE s LIKE '100\%'
-- @expect
6

-- @query str_like_any
SELECT count(*) FROM s_t WHERE s LIKE '%'
-- @expect
14

-- @query str_like_one_unicode_char
SELECT id FROM s_t WHERE s LIKE '_pfel'
-- @expect
8

-- @query str_not_like
SELECT id FROM s_t WHERE s NOT LIKE '%a%'
-- @expect
2
3
6
8
9
14
15

-- @query str_ilike
SELECT id FROM s_t WHERE s ILIKE 'apple'
-- @expect
1
2
15

-- @query str_regex
SELECT id FROM s_t WHERE s ~ '^[a-z]+$'
-- @expect
1
10

-- @query str_regex_case_insensitive
SELECT id FROM s_t WHERE s ~* '^apple$'
-- @expect
1
2
15

-- @query str_regex_not
SELECT id FROM s_t WHERE s !~ '[a-z]'
-- @expect
3
6
9
15

-- @query str_regexp_replace
SELECT id, regexp_replace(s, '[aeiou]', '*', 'g') FROM s_t WHERE id <= 5
-- @expect
1	*ppl*
2	Appl*
3	(empty)
4	NULL
5	b*n*n* spl*t

-- @query str_empty_is_not_null
SELECT id FROM s_t WHERE s = ''
-- @expect
3

-- @query str_null
SELECT id FROM s_t WHERE s IS NULL
-- @expect
4

-- @query str_not_equal_skips_null
SELECT count(*) FROM s_t WHERE s <> ''
-- @expect
13

-- @query str_concat_null
SELECT id, s || '!', concat(s, '!') FROM s_t WHERE id IN (3, 4)
-- @expect
3	!	!
4	NULL	!

-- @query str_empty_value
SELECT s, length(s) FROM s_t WHERE id = 3
-- @expect
(empty)	0

-- @query str_lengths
SELECT id, length(s), octet_length(s) FROM s_t WHERE id IN (1, 8, 9, 14)
-- @expect
1	5	5
8	5	6
9	3	9
14	7	10

-- @query str_case
SELECT id, upper(s), lower(s) FROM s_t WHERE id IN (1, 2, 8, 13)
-- @expect
1	APPLE	apple
2	APPLE	apple
8	ÄPFEL	äpfel
13	NAÏVE	naïve

-- @query str_order_bytes ordered
SELECT id FROM s_t ORDER BY s NULLS LAST
-- @expect
3
11
6
15
2
12
7
1
5
13
10
8
9
14
4

-- @query str_order_desc_limit ordered
SELECT id FROM s_t ORDER BY s DESC NULLS LAST LIMIT 3
-- @expect
14
9
8

-- @query str_min_max
SELECT min(s), max(s), count(DISTINCT s) FROM s_t
-- @expect
(empty)	😀 smile	14

-- @query str_group_folded
SELECT lower(trim(s)), count(*) FROM s_t WHERE s ILIKE '%apple%' GROUP BY 1
-- @expect
apple	4

-- @query str_substr
SELECT id, substr(s, 2, 3), left(s, 2), right(s, 2) FROM s_t WHERE id IN (1, 8, 9)
-- @expect
1	ppl	ap	le
8	pfe	äp	el
9	本語	日本	本語

-- @query str_trim rows=1
SELECT trim(s), length(trim(s)), ltrim(s), rtrim(s) FROM s_t WHERE id = 11

-- @query str_replace_position
SELECT id, replace(s, 'p', 'q'), strpos(s, 'p') FROM s_t WHERE id IN (1, 3, 4, 8)
-- @expect
1	aqqle	2
3	(empty)	0
4	NULL	NULL
8	äqfel	2

-- @query str_split_part
SELECT split_part(s, ' ', 2) FROM s_t WHERE id = 5
-- @expect
split

-- @query str_pad_reverse
SELECT lpad(CAST(id AS VARCHAR), 3, '0'), reverse(s) FROM s_t WHERE id IN (1, 9)
-- @expect
001	elppa
009	語本日

-- @query str_starts_ends
SELECT id FROM s_t WHERE starts_with(s, 'a') OR ends_with(s, '%')
-- @expect
1
6
7
12

-- @query str_equality_case
SELECT id FROM s_t WHERE s = 'Apple'
-- @expect
2

-- @query str_range
SELECT id FROM s_t WHERE s >= 'a' AND s < 'b'
-- @expect
1
7
12

-- @query str_join_unicode
SELECT a.id, b.id FROM s_t a JOIN s_t b ON a.s = b.s WHERE a.id >= 8
-- @expect
8	8
9	9
10	10
11	11
12	12
13	13
14	14
15	15

-- @query str_join_folded
SELECT a.id, b.id FROM s_t a JOIN s_t b ON lower(a.s) = lower(b.s) AND a.id < b.id
-- @expect
1	2
1	15
2	15

-- @query str_big_group
SELECT count(*), sum(c), min(c), max(c) FROM (SELECT k, count(*) AS c FROM s_big GROUP BY k) q
-- @expect
50	1000	20	20

-- @query str_big_equality
SELECT count(*), sum(v) FROM s_big WHERE k = 'key-with-a-long-common-prefix-7'
-- @expect
20	9640

-- @query str_big_join
SELECT count(*) FROM s_big a JOIN s_big b ON a.k = b.k
-- @expect
20000

-- @query str_union_distinct
SELECT s FROM s_t WHERE id < 5 UNION SELECT upper(s) FROM s_t WHERE id < 5
-- @expect
(empty)
APPLE
Apple
NULL
apple

-- @query str_count_distinct_folded
SELECT count(DISTINCT lower(s)) FROM s_t
-- @expect
12

-- @query str_quotes
SELECT id FROM s_t WHERE 'it''s' = 'it''s' AND id = 1
-- @expect
1

-- @query str_chr_ascii
SELECT ascii(s), chr(65 + id) FROM s_t WHERE id = 1
-- @expect
97	B

-- @query str_coalesce_empty
SELECT id, coalesce(nullif(s, ''), 'none') FROM s_t WHERE id IN (3, 4)
-- @expect
3	none
4	none
