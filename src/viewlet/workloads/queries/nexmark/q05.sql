WITH counts AS (
    SELECT
        unix_millis(b.date_time) DIV 2000 * 2000 - h.behind AS window_start,
        b.auction,
        COUNT(*) AS num
    FROM bid b
    CROSS JOIN (VALUES (0), (2000), (4000), (6000), (8000)) AS h (behind)
    GROUP BY 1, 2
)
SELECT c.window_start, c.auction, c.num
FROM counts c
JOIN (
    SELECT window_start, MAX(num) AS most
    FROM counts
    GROUP BY window_start
) AS m ON m.window_start = c.window_start
WHERE c.num = m.most;
