SELECT auction, bidder, price, channel, url, date_time, extra
FROM bid
QUALIFY date_time = MAX(date_time) OVER (PARTITION BY bidder, auction);
