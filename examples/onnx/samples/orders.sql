CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer TEXT NOT NULL,
    placed DATE NOT NULL,
    total DECIMAL(10, 2) NOT NULL
);

SELECT customer, COUNT(*) AS orders, SUM(total) AS spent
FROM orders
WHERE placed >= '2026-01-01'
GROUP BY customer
HAVING SUM(total) > 100
ORDER BY spent DESC;
