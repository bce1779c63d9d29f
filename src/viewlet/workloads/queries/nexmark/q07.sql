SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid b
JOIN (
    SELECT unix_millis(date_time) DIV 10000 AS window, MAX(price) AS highest
    FROM bid
    GROUP BY 1
) AS w ON w.window = unix_millis(b.date_time) DIV 10000 AND b.price = w.highest;
