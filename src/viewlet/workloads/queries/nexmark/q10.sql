SELECT
    auction, bidder, price, date_time, extra,
    CAST(date_time AS DATE) AS day,
    DATE_TRUNC('MINUTE', date_time) AS minute
FROM bid;
