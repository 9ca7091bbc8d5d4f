-- Tables partitioned by column values that are hard to store as a name (case S29): each value must be found again,
-- and no filter on the partition column may lose a row.

-- @table p_hard partition_by=k
CREATE TABLE p_hard (id INT, k VARCHAR);
INSERT INTO p_hard VALUES (1, NULL), (2, ''), (3, 'a/b'), (4, '%'), (5, 'x=y'), (6, '__HIVE_DEFAULT_PARTITION__'), (7, 'null'), (8, '2026-01-01 00:00'), (9, 'Case'), (10, 'case'), (11, 'CASE'), (12, 'NULL'), (13, ' '), (14, 'a b'), (15, 'a%2Fb'), (16, '..'), (17, '.'), (18, '日本'), (19, 'é'), (20, 'é'), (21, 'it''s'), (22, 'a\b'), (23, '#?&+'), (24, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'), (25, '"q"'), (26, 'nul:'), (27, 'a,b'), (28, '__null__'), (29, '(empty text)'), (30, '0'), (31, 'true'), (32, 'a/b/'), (33, '/'), (34, '😀');

-- @table p_hard_bucket partition_by=bucket(4, k)
CREATE TABLE p_hard_bucket (id INT, k VARCHAR);
INSERT INTO p_hard_bucket SELECT id, k FROM p_hard;

-- @table p_hard_two partition_by=k, n
CREATE TABLE p_hard_two (id INT, k VARCHAR, n INT);
INSERT INTO p_hard_two SELECT id, k, CASE WHEN id % 4 = 0 THEN NULL ELSE id % 4 END FROM p_hard;

-- @query S29_count
SELECT count(*), count(k), count(DISTINCT k) FROM p_hard
-- @expect
34	33	33

-- @query S29_p_hard_all_rows
SELECT id, replace(k, ' ', '_') FROM p_hard
-- @expect
1	NULL
2	(empty)
3	a/b
4	%
5	x=y
6	__HIVE_DEFAULT_PARTITION__
7	null
8	2026-01-01_00:00
9	Case
10	case
11	CASE
12	NULL
13	_
14	a_b
15	a%2Fb
16	..
17	.
18	日本
19	é
20	é
21	it's
22	a\b
23	#?&+
24	xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
25	"q"
26	nul:
27	a,b
28	__null__
29	(empty_text)
30	0
31	true
32	a/b/
33	/
34	😀

-- @query S29_p_hard_bucket_all_rows
SELECT id, replace(k, ' ', '_') FROM p_hard_bucket
-- @expect
1	NULL
2	(empty)
3	a/b
4	%
5	x=y
6	__HIVE_DEFAULT_PARTITION__
7	null
8	2026-01-01_00:00
9	Case
10	case
11	CASE
12	NULL
13	_
14	a_b
15	a%2Fb
16	..
17	.
18	日本
19	é
20	é
21	it's
22	a\b
23	#?&+
24	xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
25	"q"
26	nul:
27	a,b
28	__null__
29	(empty_text)
30	0
31	true
32	a/b/
33	/
34	😀

-- @query S29_p_hard_two_all_rows
SELECT id, replace(k, ' ', '_') FROM p_hard_two
-- @expect
1	NULL
2	(empty)
3	a/b
4	%
5	x=y
6	__HIVE_DEFAULT_PARTITION__
7	null
8	2026-01-01_00:00
9	Case
10	case
11	CASE
12	NULL
13	_
14	a_b
15	a%2Fb
16	..
17	.
18	日本
19	é
20	é
21	it's
22	a\b
23	#?&+
24	xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
25	"q"
26	nul:
27	a,b
28	__null__
29	(empty_text)
30	0
31	true
32	a/b/
33	/
34	😀

-- @query S29_p_hard_find_1
SELECT id FROM p_hard WHERE k IS NULL
-- @expect
1

-- @query S29_p_hard_find_2
SELECT id FROM p_hard WHERE k = ''
-- @expect
2

-- @query S29_p_hard_find_3
SELECT id FROM p_hard WHERE k = 'a/b'
-- @expect
3

-- @query S29_p_hard_find_4
SELECT id FROM p_hard WHERE k = '%'
-- @expect
4

-- @query S29_p_hard_find_5
SELECT id FROM p_hard WHERE k = 'x=y'
-- @expect
5

-- @query S29_p_hard_find_6
SELECT id FROM p_hard WHERE k = '__HIVE_DEFAULT_PARTITION__'
-- @expect
6

-- @query S29_p_hard_find_7
SELECT id FROM p_hard WHERE k = 'null'
-- @expect
7

-- @query S29_p_hard_find_8
SELECT id FROM p_hard WHERE k = '2026-01-01 00:00'
-- @expect
8

-- @query S29_p_hard_find_9
SELECT id FROM p_hard WHERE k = 'Case'
-- @expect
9

-- @query S29_p_hard_find_10
SELECT id FROM p_hard WHERE k = 'case'
-- @expect
10

-- @query S29_p_hard_find_11
SELECT id FROM p_hard WHERE k = 'CASE'
-- @expect
11

-- @query S29_p_hard_find_12
SELECT id FROM p_hard WHERE k = 'NULL'
-- @expect
12

-- @query S29_p_hard_find_15
SELECT id FROM p_hard WHERE k = 'a%2Fb'
-- @expect
15

-- @query S29_p_hard_find_18
SELECT id FROM p_hard WHERE k = '日本'
-- @expect
18

-- @query S29_p_hard_find_20
SELECT id FROM p_hard WHERE k = 'é'
-- @expect
20

-- @query S29_p_hard_find_21
SELECT id FROM p_hard WHERE k = 'it''s'
-- @expect
21

-- @query S29_p_hard_find_24
SELECT id FROM p_hard WHERE k = 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
-- @expect
24

-- @query S29_p_hard_find_25
SELECT id FROM p_hard WHERE k = '"q"'
-- @expect
25

-- @query S29_p_hard_find_32
SELECT id FROM p_hard WHERE k = 'a/b/'
-- @expect
32

-- @query S29_p_hard_find_34
SELECT id FROM p_hard WHERE k = '😀'
-- @expect
34

-- @query S29_p_hard_two_find_1
SELECT id FROM p_hard_two WHERE k IS NULL
-- @expect
1

-- @query S29_p_hard_two_find_2
SELECT id FROM p_hard_two WHERE k = ''
-- @expect
2

-- @query S29_p_hard_two_find_3
SELECT id FROM p_hard_two WHERE k = 'a/b'
-- @expect
3

-- @query S29_p_hard_two_find_6
SELECT id FROM p_hard_two WHERE k = '__HIVE_DEFAULT_PARTITION__'
-- @expect
6

-- @query S29_p_hard_two_find_7
SELECT id FROM p_hard_two WHERE k = 'null'
-- @expect
7

-- @query S29_p_hard_two_find_9
SELECT id FROM p_hard_two WHERE k = 'Case'
-- @expect
9

-- @query S29_p_hard_bucket_find_1
SELECT id FROM p_hard_bucket WHERE k IS NULL
-- @expect
1

-- @query S29_p_hard_bucket_find_2
SELECT id FROM p_hard_bucket WHERE k = ''
-- @expect
2

-- @query S29_p_hard_bucket_find_7
SELECT id FROM p_hard_bucket WHERE k = 'null'
-- @expect
7

-- @query S29_p_hard_bucket_find_10
SELECT id FROM p_hard_bucket WHERE k = 'case'
-- @expect
10

-- @query S29_p_hard_bucket_find_18
SELECT id FROM p_hard_bucket WHERE k = '日本'
-- @expect
18

-- @query S29_p_hard_filter_is_not_null
SELECT id FROM p_hard WHERE k IS NOT NULL
-- @expect
2
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_filter_not_equal_empty
SELECT id FROM p_hard WHERE k <> ''
-- @expect
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_filter_not_equal_null_text
SELECT id FROM p_hard WHERE k <> 'null'
-- @expect
2
3
4
5
6
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_filter_in
SELECT id FROM p_hard WHERE k IN ('', 'a/b', 'case', NULL)
-- @expect
2
3
10

-- @query S29_p_hard_filter_not_in
SELECT id FROM p_hard WHERE k NOT IN ('', 'a/b', 'case')
-- @expect
4
5
6
7
8
9
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_filter_not_in_with_null
SELECT id FROM p_hard WHERE k NOT IN ('', NULL)
-- @expect

-- @query S29_p_hard_filter_or_null
SELECT id FROM p_hard WHERE k IS NULL OR k = '%'
-- @expect
1
4

-- @query S29_p_hard_filter_range
SELECT id FROM p_hard WHERE k >= 'a' AND k < 'd'
-- @expect
3
10
14
15
22
27
32

-- @query S29_p_hard_filter_less
SELECT id FROM p_hard WHERE k < '0'
-- @expect
2
4
13
16
17
23
25
29
33

-- @query S29_p_hard_filter_greater_equal
SELECT id FROM p_hard WHERE k >= 'x'
-- @expect
5
18
19
24
34

-- @query S29_p_hard_filter_between
SELECT id FROM p_hard WHERE k BETWEEN 'CASE' AND 'case'
-- @expect
3
6
9
10
11
12
14
15
22
27
28
32

-- @query S29_p_hard_filter_like_prefix
SELECT id FROM p_hard WHERE k LIKE 'a%'
-- @expect
3
14
15
22
27
32

-- @query S29_p_hard_filter_like_contains
SELECT id FROM p_hard WHERE k LIKE '%/%'
-- @expect
3
32
33

-- @query S29_p_hard_filter_lower
SELECT id FROM p_hard WHERE lower(k) = 'case'
-- @expect
9
10
11

-- @query S29_p_hard_filter_length
SELECT id FROM p_hard WHERE length(k) <= 1
-- @expect
2
4
13
17
19
30
33
34

-- @query S29_p_hard_filter_or_other_column
SELECT id FROM p_hard WHERE k = 'x=y' OR id = 1
-- @expect
1
5

-- @query S29_p_hard_filter_and_other_column
SELECT id FROM p_hard WHERE k = 'x=y' AND id > 100
-- @expect

-- @query S29_p_hard_filter_missing_value
SELECT id FROM p_hard WHERE k = 'absent'
-- @expect

-- @query S29_p_hard_filter_distinct_from
SELECT id FROM p_hard WHERE k IS DISTINCT FROM 'null'
-- @expect
1
2
3
4
5
6
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_filter_not_distinct_from_null
SELECT id FROM p_hard WHERE k IS NOT DISTINCT FROM NULL
-- @expect
1

-- @query S29_p_hard_filter_coalesced
SELECT id FROM p_hard WHERE coalesce(k, 'null') = 'null'
-- @expect
1
7

-- @query S29_p_hard_filter_not_of_equal
SELECT id FROM p_hard WHERE NOT (k = '')
-- @expect
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_filter_constant_true
SELECT id FROM p_hard WHERE k = k
-- @expect
2
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_two_filter_is_not_null
SELECT id FROM p_hard_two WHERE k IS NOT NULL
-- @expect
2
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_two_filter_not_equal_empty
SELECT id FROM p_hard_two WHERE k <> ''
-- @expect
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_two_filter_not_equal_null_text
SELECT id FROM p_hard_two WHERE k <> 'null'
-- @expect
2
3
4
5
6
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_two_filter_in
SELECT id FROM p_hard_two WHERE k IN ('', 'a/b', 'case', NULL)
-- @expect
2
3
10

-- @query S29_p_hard_two_filter_or_null
SELECT id FROM p_hard_two WHERE k IS NULL OR k = '%'
-- @expect
1
4

-- @query S29_p_hard_two_filter_distinct_from
SELECT id FROM p_hard_two WHERE k IS DISTINCT FROM 'null'
-- @expect
1
2
3
4
5
6
8
9
10
11
12
13
14
15
16
17
18
19
20
21
22
23
24
25
26
27
28
29
30
31
32
33
34

-- @query S29_p_hard_two_second_equal
SELECT id FROM p_hard_two WHERE n = 2
-- @expect
2
6
10
14
18
22
26
30
34

-- @query S29_p_hard_two_second_null
SELECT id FROM p_hard_two WHERE n IS NULL
-- @expect
4
8
12
16
20
24
28
32

-- @query S29_p_hard_two_both
SELECT id FROM p_hard_two WHERE k = 'null' AND n = 3
-- @expect
7

-- @query S29_p_hard_two_either
SELECT id FROM p_hard_two WHERE k = 'null' OR n = 1
-- @expect
1
5
7
9
13
17
21
25
29
33

-- @query S29_p_hard_two_both_null
SELECT id FROM p_hard_two WHERE k IS NULL AND n IS NULL
-- @expect

-- @query S29_p_hard_two_null_and_value
SELECT id FROM p_hard_two WHERE k IS NULL AND n = 1
-- @expect
1

-- @query S29_p_hard_two_range_second
SELECT id FROM p_hard_two WHERE n > 1 AND k IS NOT NULL
-- @expect
2
3
6
7
10
11
14
15
18
19
22
23
26
27
30
31
34

-- @query S29_p_hard_two_second_not_in
SELECT id FROM p_hard_two WHERE n NOT IN (1, 2)
-- @expect
3
7
11
15
19
23
27
31

-- @query S29_group rows=34
SELECT k, count(*) FROM p_hard GROUP BY k

-- @query S29_group_has_one_each
SELECT c, count(*) FROM (SELECT k, count(*) AS c FROM p_hard GROUP BY k) q GROUP BY c
-- @expect
1	34

-- @query S29_self_join
SELECT count(*) FROM p_hard a JOIN p_hard b ON a.k = b.k
-- @expect
33

-- @query S29_join_with_bucketed
SELECT count(*) FROM p_hard a JOIN p_hard_bucket b ON a.k = b.k AND a.id = b.id
-- @expect
33

-- @query S29_full_join_with_bucketed
SELECT count(*), count(a.id), count(b.id) FROM p_hard a FULL JOIN p_hard_bucket b ON a.k = b.k
-- @expect
35	34	34

-- @query S29_null_safe_join
SELECT count(*) FROM p_hard a JOIN p_hard_two b ON a.k IS NOT DISTINCT FROM b.k
-- @expect
34

-- @query S29_order ordered
SELECT id FROM p_hard ORDER BY k NULLS FIRST LIMIT 3
-- @expect
1
2
13

-- @query S29_anti_join_finds_null
SELECT id FROM p_hard a WHERE NOT EXISTS (SELECT 1 FROM p_hard_bucket b WHERE b.k = a.k)
-- @expect
1

-- @query S29_except_self
SELECT k FROM p_hard EXCEPT SELECT k FROM p_hard_bucket
-- @expect

-- @query S29_filter_by_subquery
SELECT id FROM p_hard WHERE k = (SELECT k FROM p_hard_bucket WHERE id = 6)
-- @expect
6

-- @query S29_filter_by_in_subquery
SELECT id FROM p_hard WHERE k IN (SELECT k FROM p_hard_bucket WHERE id < 4)
-- @expect
2
3

-- @query S29_group_by_folded
SELECT lower(k), count(*) FROM p_hard WHERE lower(k) IN ('case', 'null') GROUP BY lower(k)
-- @expect
case	3
null	2
