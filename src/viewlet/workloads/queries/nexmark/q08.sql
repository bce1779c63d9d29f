SELECT p.id, p.name, p.window_start
FROM (
    SELECT id, name, unix_millis(date_time) DIV 10000 * 10000 AS window_start
    FROM person
    GROUP BY 1, 2, 3
) AS p
JOIN (
    SELECT seller, unix_millis(date_time) DIV 10000 * 10000 AS window_start
    FROM auction
    GROUP BY 1, 2
) AS a ON p.id = a.seller AND p.window_start = a.window_start;
