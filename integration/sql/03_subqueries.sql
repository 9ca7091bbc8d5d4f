-- Scalar, correlated and lateral subqueries.

-- @table q_two partition_by=x
CREATE TABLE q_two (x INT);
INSERT INTO q_two VALUES (1), (2);

-- @table q_none partition_by=x
CREATE TABLE q_none (x INT);

-- @table q_one partition_by=x
CREATE TABLE q_one (x INT);
INSERT INTO q_one VALUES (42);

-- @table q_emp partition_by=bucket(4, id)
CREATE TABLE q_emp (id INT, dept INT, salary INT, boss INT);
INSERT INTO q_emp VALUES (1, 10, 100, NULL), (2, 10, 80, 1), (3, 10, 80, 1), (4, 20, 120, 1), (5, 20, 60, 4), (6, 30, 70, 4), (7, NULL, 90, 1), (8, 20, NULL, 5);

-- @table q_dept partition_by=bucket(3, id)
CREATE TABLE q_dept (id INT, name VARCHAR, budget INT);
INSERT INTO q_dept VALUES (10, 'ten', 250), (20, 'twenty', 170), (30, 'thirty', 100), (40, 'forty', NULL);

-- @query S19_scalar_two_rows error
SELECT (SELECT x FROM q_two)

-- @query S19_scalar_two_rows_in_where error
SELECT id FROM q_emp WHERE salary > (SELECT x FROM q_two)

-- @query S19_scalar_two_rows_in_where_equal error
SELECT id FROM q_emp WHERE id = (SELECT x FROM q_two)

-- @query S19_scalar_two_rows_in_having error
SELECT dept, count(*) FROM q_emp GROUP BY dept HAVING count(*) > (SELECT x FROM q_two)

-- @query S19_scalar_two_rows_from_group_by error
SELECT id FROM q_emp WHERE salary > (SELECT max(salary) FROM q_emp GROUP BY dept)

-- @query S19_scalar_two_rows_from_union error
SELECT (SELECT 1 UNION ALL SELECT 2)

-- @query S19_scalar_zero_rows
SELECT (SELECT x FROM q_none)
-- @expect
NULL

-- @query S19_scalar_zero_rows_by_filter
SELECT (SELECT x FROM q_two WHERE x > 5) IS NULL
-- @expect
true

-- @query S19_scalar_zero_rows_in_where
SELECT id FROM q_emp WHERE salary > (SELECT x FROM q_none)
-- @expect

-- @query S19_scalar_zero_rows_not_comparison
SELECT count(*) FROM q_emp WHERE NOT (salary > (SELECT x FROM q_none))
-- @expect
0

-- @query S19_scalar_zero_rows_coalesced
SELECT count(*) FROM q_emp WHERE salary > coalesce((SELECT x FROM q_none), 75)
-- @expect
5

-- @query S19_scalar_one_row
SELECT (SELECT x FROM q_one), id FROM q_emp WHERE id < 3
-- @expect
42	1
42	2

-- @query S19_scalar_limited_to_one_row
SELECT (SELECT x FROM q_two ORDER BY x DESC LIMIT 1)
-- @expect
2

-- @query S19_scalar_aggregate_of_empty
SELECT (SELECT count(*) FROM q_none), (SELECT sum(x) FROM q_none)
-- @expect
0	NULL

-- @query S19_scalar_average
SELECT id FROM q_emp WHERE salary > (SELECT avg(salary) FROM q_emp)
-- @expect
1
4
7

-- @query S19_scalar_in_having
SELECT dept, sum(salary) FROM q_emp GROUP BY dept HAVING sum(salary) > (SELECT sum(salary) / 4 FROM q_emp)
-- @expect
10	260
20	180

-- @query S19_scalar_max_equal
SELECT id, salary FROM q_emp WHERE salary = (SELECT max(salary) FROM q_emp)
-- @expect
4	120

-- @query S19_scalar_max_over_view
WITH rev AS (SELECT dept AS d, sum(salary) AS total FROM q_emp GROUP BY dept) SELECT q_dept.id, name, total FROM q_dept JOIN rev ON q_dept.id = rev.d WHERE total = (SELECT max(total) FROM rev)
-- @expect
10	ten	260

-- @query S19_scalar_in_order_by ordered
SELECT id FROM q_emp WHERE salary IS NOT NULL ORDER BY abs(salary - (SELECT max(salary) FROM q_emp)), id
-- @expect
4
1
7
2
3
6
5

-- @query S19_scalar_in_case
SELECT id, CASE WHEN salary > (SELECT avg(salary) FROM q_emp) THEN 'high' WHEN salary IS NULL THEN 'none' ELSE 'low' END FROM q_emp
-- @expect
1	high
2	low
3	low
4	high
5	low
6	low
7	high
8	none

-- @query S19_scalar_nested
SELECT id FROM q_emp WHERE salary = (SELECT max(salary) FROM q_emp WHERE salary < (SELECT max(salary) FROM q_emp))
-- @expect
1

-- @query S19_two_scalars_in_expression
SELECT (SELECT max(salary) FROM q_emp) - (SELECT min(salary) FROM q_emp)
-- @expect
60

-- @query S19_scalar_between
SELECT id FROM q_emp WHERE salary BETWEEN (SELECT min(salary) FROM q_emp) AND (SELECT min(budget) FROM q_dept)
-- @expect
1
2
3
5
6
7

-- @query S19_scalar_same_twice
SELECT count(*) FROM q_emp WHERE salary >= (SELECT avg(salary) FROM q_emp) OR salary < (SELECT avg(salary) FROM q_emp)
-- @expect
7

-- @query S19_scalar_as_partition_filter
SELECT x FROM q_two WHERE x = (SELECT max(x) FROM q_two)
-- @expect
2

-- @query S19_scalar_of_window
SELECT id FROM q_emp WHERE id = (SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY id) AS r FROM q_dept) w)
-- @expect
4

-- @query S19_scalar_boolean
SELECT id FROM q_dept WHERE (SELECT count(*) > 1 FROM q_two)
-- @expect
10
20
30
40

-- @query S19_scalar_in_join_condition
SELECT e.id, d.id FROM q_emp e JOIN q_dept d ON e.dept = d.id AND e.salary > (SELECT avg(salary) FROM q_emp)
-- @expect
1	10
4	20

-- @query S19_scalar_in_aggregate_argument
SELECT sum(salary - (SELECT min(salary) FROM q_emp)) FROM q_emp
-- @expect
180

-- @query S19_scalar_in_group_by
SELECT salary > (SELECT avg(salary) FROM q_emp) AS high, count(*) FROM q_emp GROUP BY 1
-- @expect
NULL	1
false	4
true	3

-- @query S19_scalar_in_limit_of_nested
SELECT id FROM (SELECT id FROM q_emp WHERE id > (SELECT min(id) FROM q_emp) ORDER BY id LIMIT 2) t
-- @expect
2
3

-- @query sub_correlated_scalar_select
SELECT d.id, (SELECT max(salary) FROM q_emp e WHERE e.dept = d.id) FROM q_dept d
-- @expect
10	100
20	120
30	70
40	NULL

-- @query sub_correlated_count_keeps_zero
SELECT d.id, (SELECT count(*) FROM q_emp e WHERE e.dept = d.id) FROM q_dept d
-- @expect
10	3
20	3
30	1
40	0

-- @query sub_correlated_scalar_where
SELECT id FROM q_emp e WHERE salary > (SELECT avg(salary) FROM q_emp i WHERE i.dept = e.dept)
-- @expect
1
4

-- @query sub_correlated_count_zero_in_where
SELECT id FROM q_dept d WHERE (SELECT count(*) FROM q_emp e WHERE e.dept = d.id) = 0
-- @expect
40

-- @query sub_correlated_sum_against_budget
SELECT name FROM q_dept d WHERE budget < (SELECT sum(salary) FROM q_emp e WHERE e.dept = d.id)
-- @expect
ten
twenty

-- @query sub_correlated_self
SELECT e.id, (SELECT max(b.salary) FROM q_emp b WHERE b.id = e.boss) FROM q_emp e WHERE e.id <= 4
-- @expect
1	NULL
2	100
3	100
4	100

-- @query sub_correlated_in_case expect_only
SELECT d.id, CASE WHEN EXISTS (SELECT 1 FROM q_emp e WHERE e.dept = d.id AND e.salary > 90) THEN 'y' ELSE 'n' END FROM q_dept d
-- @expect
10	y
20	y
30	n
40	n

-- @query sub_correlated_two_levels
SELECT d.id FROM q_dept d WHERE EXISTS (SELECT 1 FROM q_emp e WHERE e.dept = d.id AND EXISTS (SELECT 1 FROM q_emp b WHERE b.boss = e.id))
-- @expect
10
20

-- @query sub_correlated_with_extra_filter
SELECT d.id, (SELECT count(*) FROM q_emp e WHERE e.dept = d.id AND e.salary >= 80) FROM q_dept d WHERE d.id > 10
-- @expect
20	1
30	0
40	0

-- @query sub_correlated_coalesce
SELECT d.id, coalesce((SELECT sum(salary) FROM q_emp e WHERE e.dept = d.id), -1) FROM q_dept d
-- @expect
10	260
20	180
30	70
40	-1

-- @query sub_correlated_exists_two_keys
SELECT e.id FROM q_emp e WHERE EXISTS (SELECT 1 FROM q_emp o WHERE o.dept = e.dept AND o.salary = e.salary AND o.id <> e.id)
-- @expect
2
3

-- @query sub_in_with_group_having
SELECT name FROM q_dept WHERE id IN (SELECT dept FROM q_emp GROUP BY dept HAVING count(*) > 1)
-- @expect
ten
twenty

-- @query sub_in_multi_column_by_exists
SELECT e.id FROM q_emp e WHERE EXISTS (SELECT 1 FROM (SELECT dept, max(salary) AS m FROM q_emp GROUP BY dept) t WHERE t.dept = e.dept AND t.m = e.salary)
-- @expect
1
4
6

-- @query sub_derived_table
SELECT t.dept, t.c, d.name FROM (SELECT dept, count(*) AS c FROM q_emp GROUP BY dept) t LEFT JOIN q_dept d ON d.id = t.dept
-- @expect
10	3	ten
20	3	twenty
30	1	thirty
NULL	1	NULL

-- @query sub_derived_of_derived
SELECT max(c) FROM (SELECT count(*) AS c FROM (SELECT dept FROM q_emp WHERE salary > 60) x GROUP BY dept) y
-- @expect
3

-- @query sub_lateral_filter
SELECT d.id, l.id FROM q_dept d JOIN LATERAL (SELECT e.id FROM q_emp e WHERE e.dept = d.id) l ON true
-- @expect
10	1
10	2
10	3
20	4
20	5
20	8
30	6

-- @query sub_lateral_left
SELECT d.id, l.id FROM q_dept d LEFT JOIN LATERAL (SELECT e.id FROM q_emp e WHERE e.dept = d.id) l ON true
-- @expect
10	1
10	2
10	3
20	4
20	5
20	8
30	6
40	NULL

-- @query sub_lateral_aggregate
SELECT d.id, l.s FROM q_dept d CROSS JOIN LATERAL (SELECT sum(e.salary) AS s FROM q_emp e WHERE e.dept = d.id) l
-- @expect
10	260
20	180
30	70
40	NULL

-- @query sub_lateral_comma
SELECT d.id, l.m FROM q_dept d, LATERAL (SELECT max(salary) AS m FROM q_emp e WHERE e.dept = d.id) l
-- @expect
10	100
20	120
30	70
40	NULL

-- @query sub_exists_and_not_exists
SELECT d.id FROM q_dept d WHERE EXISTS (SELECT 1 FROM q_emp e WHERE e.dept = d.id) AND NOT EXISTS (SELECT 1 FROM q_emp e WHERE e.dept = d.id AND e.salary > 90)
-- @expect
30

-- @query sub_not_exists_other_employee
SELECT e.id FROM q_emp e WHERE NOT EXISTS (SELECT 1 FROM q_emp o WHERE o.dept = e.dept AND o.salary > e.salary) AND e.salary IS NOT NULL
-- @expect
1
4
6
7

-- @query sub_exists_in_select_list expect_only
SELECT d.id, EXISTS (SELECT 1 FROM q_emp e WHERE e.dept = d.id) FROM q_dept d
-- @expect
10	true
20	true
30	true
40	false

-- The engine plans IN as a condition only.

-- @query sub_in_in_select_list expect_only
SELECT e.id, e.dept IN (SELECT id FROM q_dept WHERE budget > 150) FROM q_emp e
-- @expect
1	true
2	true
3	true
4	true
5	true
6	false
7	NULL
8	true

-- @query sub_any_equal
SELECT id FROM q_emp WHERE dept = ANY (SELECT id FROM q_dept WHERE budget > 150)
-- @expect
1
2
3
4
5
8

-- @query sub_correlated_limit_one rows=4
SELECT d.id, (SELECT first_value(e.id ORDER BY e.salary DESC, e.id) FROM q_emp e WHERE e.dept = d.id AND e.salary IS NOT NULL) FROM q_dept d

-- @table q_cust partition_by=bucket(4, ck)
CREATE TABLE q_cust (ck INT, phone VARCHAR, acct DECIMAL(12,2));
INSERT INTO q_cust VALUES (1, '13-555', 100.00), (2, '31-555', 700.50), (3, '13-556', 650.25), (4, '17-001', 900.00), (5, '99-001', 5000.00), (6, '31-777', -10.00), (7, '17-002', 800.75), (8, '13-999', 710.00);

-- @table q_ord partition_by=bucket(4, ok)
CREATE TABLE q_ord (ok INT, ck INT);
INSERT INTO q_ord VALUES (1, 1), (2, 1), (3, 4), (4, 5), (5, 99);

-- @query S32_inner_query ordered
SELECT code, count(*) AS n, sum(acct) AS total FROM (SELECT substr(phone, 1, 2) AS code, acct FROM q_cust WHERE substr(phone, 1, 2) IN ('13', '31', '17') AND acct > (SELECT avg(acct) FROM q_cust WHERE acct > 0.00 AND substr(phone, 1, 2) IN ('13', '31', '17')) AND NOT EXISTS (SELECT 1 FROM q_ord WHERE q_ord.ck = q_cust.ck)) s GROUP BY code ORDER BY code
-- @expect
13	2	1360.25
17	1	800.75
31	1	700.50

-- @query S32_count_of_inner_query
SELECT count(*) FROM (SELECT code, count(*) AS n, sum(acct) AS total FROM (SELECT substr(phone, 1, 2) AS code, acct FROM q_cust WHERE substr(phone, 1, 2) IN ('13', '31', '17') AND acct > (SELECT avg(acct) FROM q_cust WHERE acct > 0.00 AND substr(phone, 1, 2) IN ('13', '31', '17')) AND NOT EXISTS (SELECT 1 FROM q_ord WHERE q_ord.ck = q_cust.ck)) s GROUP BY code ORDER BY code) q
-- @expect
3

-- @query S32_count_of_anti_join
SELECT count(*) FROM q_cust WHERE NOT EXISTS (SELECT 1 FROM q_ord WHERE q_ord.ck = q_cust.ck)
-- @expect
5

-- @query S32_count_of_ordered_anti_join
SELECT count(*) FROM (SELECT ck FROM q_cust c WHERE NOT EXISTS (SELECT 1 FROM q_ord o WHERE o.ck = c.ck) ORDER BY ck) x
-- @expect
5

-- @query S32_count_of_anti_join_grouped
SELECT count(*) FROM (SELECT substr(phone, 1, 2), count(*) FROM q_cust c WHERE NOT EXISTS (SELECT 1 FROM q_ord o WHERE o.ck = c.ck) GROUP BY 1) x
-- @expect
3

-- @query S32_count_of_anti_join_distinct
SELECT count(*) FROM (SELECT DISTINCT substr(phone, 1, 2) FROM q_cust c WHERE c.ck NOT IN (SELECT ck FROM q_ord)) x
-- @expect
3

-- @query S32_count_of_anti_join_against_itself
SELECT count(*) FROM (SELECT * FROM q_ord o WHERE NOT EXISTS (SELECT 1 FROM q_ord i WHERE i.ck = o.ck AND i.ok <> o.ok)) x
-- @expect
3

-- @query S32_count_of_anti_join_with_limit
SELECT count(*) FROM (SELECT ck FROM q_cust c WHERE NOT EXISTS (SELECT 1 FROM q_ord o WHERE o.ck = c.ck) LIMIT 4) x
-- @expect
4

-- A limit counts the rows of each outer row.

-- @query sub_limit_first expect_only
SELECT d.id, (SELECT e.id FROM q_emp e WHERE e.dept = d.id ORDER BY e.salary DESC NULLS LAST, e.id LIMIT 1) FROM q_dept d
-- @expect
10	1
20	4
30	6
40	NULL

-- @query sub_limit_second expect_only
SELECT d.name, (SELECT e.salary + 1 FROM q_emp e WHERE e.dept = d.id AND e.salary IS NOT NULL ORDER BY e.salary, e.id LIMIT 1 OFFSET 1) FROM q_dept d
-- @expect
forty	NULL
ten	81
thirty	NULL
twenty	121

-- @query sub_limit_in_where expect_only
SELECT e.id FROM q_emp e WHERE e.salary = (SELECT x.salary FROM q_emp x WHERE x.dept = e.dept AND x.id <> 4 ORDER BY x.salary DESC NULLS LAST LIMIT 1)
-- @expect
1
5
6

-- @query sub_limit_of_groups expect_only
SELECT d.id, (SELECT e.salary FROM q_emp e WHERE e.dept = d.id GROUP BY e.salary ORDER BY count(*) DESC, e.salary DESC NULLS LAST LIMIT 1) FROM q_dept d
-- @expect
10	80
20	120
30	70
40	NULL

-- @query sub_limit_of_distinct expect_only
SELECT d.id, (SELECT DISTINCT e.salary FROM q_emp e WHERE e.dept = d.id ORDER BY e.salary DESC NULLS LAST LIMIT 1 OFFSET 1) FROM q_dept d
-- @expect
10	80
20	60
30	NULL
40	NULL

-- @query sub_limit_of_a_join expect_only
SELECT d.id, (SELECT b.id FROM q_emp e JOIN q_emp b ON e.boss = b.id WHERE e.dept = d.id ORDER BY e.id DESC LIMIT 1) FROM q_dept d
-- @expect
10	1
20	5
30	4
40	NULL

-- @query sub_limit_two_ties expect_only
SELECT e.id, (SELECT x.id FROM q_emp x WHERE x.dept = e.dept AND x.boss = e.boss + 0 AND x.id > 1 ORDER BY x.id LIMIT 1) FROM q_emp e
-- @expect
1	NULL
2	2
3	2
4	4
5	5
6	6
7	NULL
8	8

-- @query sub_limit_too_many error expect_only
SELECT d.id, (SELECT e.id FROM q_emp e WHERE e.dept = d.id ORDER BY e.id LIMIT 2) FROM q_dept d

-- @query sub_limit_other_type expect_only
SELECT d.id, (SELECT e.id FROM (SELECT CAST(dept AS BIGINT) AS dept, id FROM q_emp) e WHERE e.dept = d.id ORDER BY e.id DESC LIMIT 1) FROM q_dept d
-- @expect
10	3
20	8
30	6
40	NULL

-- @query sub_limit_in_exists_otherwise error expect_only
SELECT d.id FROM q_dept d WHERE EXISTS (SELECT 1 FROM (SELECT e.salary FROM q_emp e WHERE e.dept < d.id ORDER BY e.salary NULLS LAST, e.id LIMIT 2) q WHERE q.salary > 100)

-- @query sub_order_in_exists expect_only
SELECT d.id FROM q_dept d WHERE EXISTS (SELECT e.id FROM q_emp e WHERE e.dept = d.id AND e.salary > 90 ORDER BY e.id LIMIT 3) AND d.id IN (SELECT e.dept FROM q_emp e WHERE e.dept = d.id ORDER BY e.id)
-- @expect
10
20
