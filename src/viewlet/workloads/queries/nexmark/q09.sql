WITH valid AS (
    SELECT
        a.id, a.item_name, a.seller, a.category, a.expires,
        b.bidder, b.price, b.date_time
    FROM auction a
    JOIN bid b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires
)
SELECT v.id, v.item_name, v.seller, v.category, v.expires, v.bidder, v.price, v.date_time
FROM valid v
JOIN (
    SELECT id, MAX(price) AS highest
    FROM valid
    GROUP BY id
) AS h ON v.id = h.id AND v.price = h.highest
JOIN (
    SELECT id, price, MIN(date_time) AS earliest
    FROM valid
    GROUP BY id, price
) AS e ON v.id = e.id AND v.price = e.price AND v.date_time = e.earliest;
