-- Our account and the customer's. Ours holds SYSTEM_USER, so that no holder of
-- CREATE USER can touch it.
CREATE USER 'steward'@'localhost' IDENTIFIED {{verifier}};
GRANT ALL PRIVILEGES ON *.* TO 'steward'@'localhost' WITH GRANT OPTION;
CREATE DATABASE defaultdb;
CREATE USER 'dbadmin'@'%' IDENTIFIED WITH caching_sha2_password AS '$A$005$THISISACOMBINATIONOFINVALIDSALTANDPASSWORDTHATMUSTNEVERBRBEUSED' ACCOUNT LOCK;
