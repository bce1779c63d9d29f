SELECT auction, bidder, price, channel, url, date_time, extra, place
FROM (
    SELECT *, RANK() OVER (PARTITION BY auction ORDER BY price DESC) AS place
    FROM bid
) AS ranked
WHERE place <= 10;
