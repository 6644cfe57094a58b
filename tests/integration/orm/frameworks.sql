-- What frameworks and shop systems send, abridged. A section is sent by one connection; [mysql] and [mariadb] begin
-- statements for that upstream alone.

== rails base
SET NAMES utf8mb4,  @@SESSION.sql_auto_is_null = 0, @@SESSION.wait_timeout = 2147483, @@SESSION.sql_mode = 'STRICT_ALL_TABLES';
CREATE TABLE `schema_migrations` (`version` varchar(255) NOT NULL PRIMARY KEY);
CREATE TABLE `ar_internal_metadata` (`key` varchar(255) NOT NULL PRIMARY KEY, `value` varchar(255), `created_at` datetime(6) NOT NULL, `updated_at` datetime(6) NOT NULL);
INSERT INTO `ar_internal_metadata` (`key`, `value`, `created_at`, `updated_at`) VALUES ('environment', 'development', '2024-01-01 10:11:12.123456', '2024-01-01 10:11:12.123456');
CREATE TABLE `users` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `email` varchar(255) DEFAULT '' NOT NULL, `name` varchar(255), `admin` tinyint(1) DEFAULT 0 NOT NULL, `balance` decimal(12,2) DEFAULT 0.0, `bio` text, `avatar` blob, `settings` json, `born_on` date, `wakes_at` time, `created_at` datetime(6) NOT NULL, `updated_at` datetime(6) NOT NULL) ROW_FORMAT=DYNAMIC;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240101000001');
CREATE UNIQUE INDEX `index_users_on_email` ON `users` (`email`);
CREATE  INDEX `index_users_on_bio`  ON `users` (`bio`(50));
CREATE TABLE `posts` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `user_id` bigint NOT NULL, `title` varchar(255), `slug` varchar(191) COLLATE `utf8mb4_bin`, `body` longtext, `comments_count` int DEFAULT 0 NOT NULL, `created_at` datetime(6) NOT NULL, `updated_at` datetime(6) NOT NULL, INDEX `index_posts_on_user_id`  (`user_id`), FULLTEXT INDEX `ft` (`title`), CONSTRAINT `fk_rails_5b5ddfd518` FOREIGN KEY (`user_id`) REFERENCES `users` (`id`)) CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC COMMENT 'posts; of ''users''';

== rails rows
BEGIN;
INSERT INTO `users` (`email`, `name`, `settings`, `created_at`, `updated_at`, born_on, wakes_at) VALUES ('a@b', 'A', '{"a": [1,2.5,null]}', '2024-01-01 10:11:12.123456', '2024-01-01 10:11:12.123456', '2001-02-03', '06:30:00');
SAVEPOINT active_record_1;
INSERT INTO `users` (`email`, `name`, `created_at`, `updated_at`) VALUES ('c@d', 'C', '2024-01-01 10:11:12.123456', '2024-01-01 10:11:12.123456');
ROLLBACK TO SAVEPOINT active_record_1;
SAVEPOINT active_record_1;
INSERT INTO `posts` (`user_id`, `title`, slug, `created_at`, `updated_at`) VALUES (1, 'ä€😀', 'Slug', '2024-01-01 10:11:12.123456', '2024-01-01 10:11:12.123456');
RELEASE SAVEPOINT active_record_1;
COMMIT;
INSERT INTO `users` (`email`,`name`,`created_at`,`updated_at`) VALUES ('e@f', 'E', CURRENT_TIMESTAMP(6), CURRENT_TIMESTAMP(6)), ('a@b', 'AA', CURRENT_TIMESTAMP(6), CURRENT_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE `updated_at`=(CASE WHEN (`name`<=>VALUES(`name`)) THEN `users`.updated_at ELSE CURRENT_TIMESTAMP(6) END),`name`=VALUES(`name`);
INSERT IGNORE INTO `users` (`email`,`name`,`created_at`,`updated_at`) VALUES ('g@h', 'G', NOW(6), NOW(6)),('a@b', 'x', NOW(6), NOW(6));
UPDATE `users` SET `users`.`balance` = COALESCE(`users`.`balance`, 0) + 1.5, `users`.`updated_at` = '2024-02-02 00:00:00' WHERE `users`.`id` = 1;
UPDATE `posts` INNER JOIN `users` ON `users`.`id` = `posts`.`user_id` SET `posts`.`comments_count` = 5, users.name = 'via join' WHERE `users`.`email` = 'a@b';
DELETE `posts` FROM `posts` INNER JOIN `users` ON `users`.`id` = `posts`.`user_id` WHERE `users`.`name` = 'nobody';

== rails changes
ALTER TABLE `users` ADD `nickname` varchar(30) DEFAULT 'x' NOT NULL COMMENT 'short; name', ADD `locked_at` datetime(6) AFTER `name`;
ALTER TABLE `users` RENAME INDEX `index_users_on_bio` TO `index_users_bio`;
ALTER TABLE `users` RENAME COLUMN `nickname` TO `nick`;
ALTER TABLE `users` CHANGE `nick` `nick` varchar(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT 'yy' NULL COMMENT 'c';
ALTER TABLE `users` ALTER COLUMN `nick` SET DEFAULT 'zz';
ALTER TABLE `users` ADD INDEX `index_users_on_name_and_nick` (`name`(10), `nick` DESC), ALGORITHM = INPLACE;
ALTER TABLE `users` ADD UNIQUE INDEX `index_users_on_lower` (`email`, `admin`) USING btree, ALGORITHM = DEFAULT, LOCK = NONE;
CREATE INDEX `i2` USING btree ON `posts` (`title`, `user_id`) ALGORITHM = COPY;
CREATE INDEX `i3` ON `posts` (`created_at`) COMMENT 'why?';
ALTER TABLE `posts` ADD CONSTRAINT `fk_rails_self` FOREIGN KEY (`id`) REFERENCES `users` (`id`) ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE `posts` DROP FOREIGN KEY `fk_rails_self`;
ALTER TABLE `posts` ADD `word_count` int GENERATED ALWAYS AS (CHAR_LENGTH(`title`)) VIRTUAL, ADD `upper_title` varchar(255) AS (UPPER(`title`)) STORED;
CREATE TABLE `posts_users` (`post_id` bigint NOT NULL, `user_id` bigint NOT NULL, UNIQUE INDEX `u` (`post_id`,`user_id`));
INSERT INTO posts_users SELECT p.id, u.id FROM posts p, users u;
ALTER TABLE `users` COMMENT 'people';
RENAME TABLE `posts` TO `articles`;
ALTER TABLE `articles` RENAME INDEX `index_posts_on_user_id` TO `index_articles_on_user_id`;
ALTER TABLE `users` MODIFY `id` bigint NOT NULL AUTO_INCREMENT COMMENT 'key';

== rails back
ALTER TABLE articles RENAME posts;
ALTER TABLE `posts` DROP COLUMN `upper_title`, DROP COLUMN word_count;
DROP INDEX `i2` ON `posts`;
ALTER TABLE `users` DROP INDEX index_users_on_lower, DROP INDEX index_users_on_name_and_nick, DROP COLUMN nick, ALGORITHM=COPY;
SET FOREIGN_KEY_CHECKS = 0;
TRUNCATE TABLE `users`;
TRUNCATE TABLE `posts`;
SET FOREIGN_KEY_CHECKS = 1;
DELETE FROM posts_users;
INSERT INTO `users` (`id`, `email`, `created_at`, `updated_at`) VALUES (980190962, 'fixture', '2024-01-01', '2024-01-01');
DROP TABLE IF EXISTS `posts_users` CASCADE;
DROP TABLE `posts`, `users`;

== rails structure load
CREATE TABLE `action_text_rich_texts` (`id` bigint NOT NULL AUTO_INCREMENT, `name` varchar(255) NOT NULL, `body` longtext, `record_type` varchar(255) NOT NULL, `record_id` bigint NOT NULL, `created_at` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), `updated_at` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), PRIMARY KEY (`id`), UNIQUE KEY `index_action_text_rich_texts_uniqueness` (`record_type`,`record_id`,`name`)) ENGINE=InnoDB AUTO_INCREMENT=1000 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO action_text_rich_texts (name, record_type, record_id) VALUES ('n','t',1),('n','t',2);
UPDATE action_text_rich_texts SET body='x';
DROP TABLE IF EXISTS `active_storage_blobs`;
CREATE TABLE `active_storage_blobs` (`id` binary(16) NOT NULL PRIMARY KEY, `key` varchar(255) NOT NULL, `metadata` text, `byte_size` bigint NOT NULL, `checksum` varchar(255), `flags` bit(1) DEFAULT b'0', `mask` bit(8) DEFAULT b'101');
INSERT INTO active_storage_blobs VALUES (UNHEX(REPLACE('6ccd780c-baba-1026-9564-5b8c656024db','-','')), 'k', NULL, 5, 'c', b'1', b'11111111'), (UNHEX('00000000000000000000000000000000'), 'k', NULL, 5, 'c', b'0', default);
UPDATE active_storage_blobs SET flags = NOT flags;
DELETE FROM active_storage_blobs WHERE id = UNHEX('00000000000000000000000000000000');

== laravel base
set names 'utf8mb4' collate 'utf8mb4_unicode_ci';
set session sql_mode='ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
create table `migrations` (`id` int unsigned not null auto_increment primary key, `migration` varchar(255) not null, `batch` int not null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
create table `users` (`id` bigint unsigned not null auto_increment primary key, `name` varchar(255) not null, `email` varchar(255) not null, `email_verified_at` timestamp null, `password` varchar(255) not null, `remember_token` varchar(100) null, `created_at` timestamp null, `updated_at` timestamp null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `users` add unique `users_email_unique`(`email`);
create table `sessions` (`id` varchar(255) not null, `user_id` bigint unsigned null, `ip_address` varchar(45) null, `user_agent` text null, `payload` longtext not null, `last_activity` int not null, primary key (`id`)) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `sessions` add index `sessions_user_id_index`(`user_id`);
create table `flights` (`id` bigint unsigned not null auto_increment primary key, `uuid` char(36) not null, `ulid` char(26) null, `price` decimal(8, 2) not null default '0', `rating` double not null default '1.5', `ratio` float(53) not null default '0', `kind` enum('a', 'b', 'it''s') not null default 'a', `tags` set('x', 'y') null, `meta` json null, `status` tinyint unsigned not null default '0', `active` tinyint(1) not null default '1', `year` year null, `bin` blob null, `at` datetime(3) null default CURRENT_TIMESTAMP(3) on update CURRENT_TIMESTAMP(3), `ts` timestamp(6) not null default CURRENT_TIMESTAMP(6), `user_id` bigint unsigned not null, `deleted_at` timestamp null, `created_at` timestamp null, `updated_at` timestamp null) default character set utf8mb4 collate 'utf8mb4_unicode_ci' engine = InnoDB comment = 'Flights';
alter table `flights` add constraint `flights_user_id_foreign` foreign key (`user_id`) references `users` (`id`) on delete cascade on update cascade;
alter table `flights` add index `flights_kind_status_index` using btree(`kind`, `status`);
create table `jobs` (`id` bigint unsigned not null auto_increment primary key, `queue` varchar(255) not null, `payload` longtext not null, `attempts` tinyint unsigned not null, `reserved_at` int unsigned null, `available_at` int unsigned not null, `created_at` int unsigned not null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `jobs` add index `jobs_queue_index`(`queue`);
create table `personal_access_tokens` (`id` bigint unsigned not null auto_increment primary key, `tokenable_type` varchar(255) not null, `tokenable_id` bigint unsigned not null, `abilities` text null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `personal_access_tokens` add index `personal_access_tokens_tokenable_type_tokenable_id_index`(`tokenable_type`, `tokenable_id`);

== laravel rows
insert into `users` (`name`, `email`, `password`, `created_at`) values ('A', 'a@x', 'p', '2024-01-01 00:00:00'), ('B', 'b@x', 'p', now());
insert into `users` (`name`, `email`, `password`) values ('A2', 'a@x', 'p'), ('C', 'c@x', 'p') on duplicate key update `name` = values(`name`);
insert into `flights` (`uuid`, `meta`, `user_id`, `price`, `kind`, `tags`, `year`, `bin`) values ('u1', '{"a": {"b": [1, 2]}, "x": "é😀"}', 1, 12.345, 'it''s', 'x,y', 2024, x'00ff'), ('u2', null, 2, 1, 'b', '', 1999, null);
update `flights` inner join `users` on `users`.`id` = `flights`.`user_id` set `flights`.`price` = 99, `users`.`remember_token` = 'tok';
start transaction;
insert into `jobs` (`queue`, `payload`, `attempts`, `available_at`, `created_at`) values ('default', '{}', 0, 1, 1), ('default', '{"x":"\\u00e9"}', 0, 2, 2);
savepoint trans2;
update `jobs` set `attempts` = `attempts` + 1;
rollback to savepoint trans2;
commit;
delete `flights` from `flights` inner join `users` on `users`.`id` = `flights`.`user_id` where `users`.`email` = 'b@x';
insert into `sessions` (`payload`, `last_activity`, `user_id`, `ip_address`, `user_agent`, `id`) values ('x', 1, null, '::1', 'ua', 'sid');
update `sessions` set `payload` = repeat('y', 70000), `last_activity` = 2 where `id` = 'sid';

== laravel change
alter table `users` add `votes` int not null default '0' after `name`, add `phone` varchar(20) character set ascii collate 'ascii_bin' null first;
alter table `users` modify `name` varchar(50) character set utf8mb4 collate 'utf8mb4_bin' null default 'anon' comment 'display; name', modify `votes` bigint unsigned not null default '5';
alter table `users` rename column `votes` to `score`;
alter table `users` change `score` `points` int unsigned not null default '1' after `email`;
alter table `users` rename index `users_email_unique` to `users_mail_unique`;
alter table `flights` drop foreign key `flights_user_id_foreign`;
alter table `flights` drop index `flights_user_id_foreign`;
alter table `flights` drop primary key, modify id bigint unsigned not null;
alter table `flights` add primary key (`id`), modify id bigint unsigned auto_increment not null;
alter table `flights` modify `kind` enum('a', 'b', 'it''s', 'new') not null default 'new';
alter table `flights` modify `at` datetime(6) not null default CURRENT_TIMESTAMP(6);
alter table `users` auto_increment = 500;
insert into `users` (`name`, `email`, `password`) values ('Z', 'z@x', 'p');
alter table `users` comment = 'Users; all';
rename table `personal_access_tokens` to `tokens`;
alter table `tokens` rename to `tokens2`;
alter table `tokens2` convert to character set utf8mb4 collate utf8mb4_general_ci;
create table `flights_archive` like `flights`;
insert into flights_archive (id, uuid, user_id, price) select id, uuid, user_id, price from flights;
create temporary table `tmp_ids` (`id` bigint unsigned not null);
insert into tmp_ids select id from users;
delete from users where id in (select id from tmp_ids) and id > 2;
drop temporary table tmp_ids;
[mariadb]create table report as select u.id, u.name, count(f.id) as n, max(f.price) as p from users u left join flights f on f.user_id = u.id group by u.id, u.name;
[mariadb]create table report2 (id bigint unsigned not null primary key, key k (name)) select id, name, 'lit' as lit, 1.5 as num, now(6) as t6, null as nothing from users;

== laravel fresh
SET FOREIGN_KEY_CHECKS=0;
drop table `migrations`,`users`,`sessions`,`flights`,`jobs`,`tokens2`,`flights_archive`;
SET FOREIGN_KEY_CHECKS=1;

== doctrine base
SET NAMES utf8mb4;
CREATE TABLE doctrine_migration_versions (version VARCHAR(191) NOT NULL, executed_at DATETIME DEFAULT NULL, execution_time INT DEFAULT NULL, PRIMARY KEY(version)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;
CREATE TABLE customer (id INT AUTO_INCREMENT NOT NULL, uuid BINARY(16) NOT NULL COMMENT '(DC2Type:uuid)', roles JSON NOT NULL COMMENT '(DC2Type:json)', tags LONGTEXT DEFAULT NULL COMMENT '(DC2Type:simple_array)', created_at DATETIME NOT NULL COMMENT '(DC2Type:datetime_immutable)', price NUMERIC(10, 2) DEFAULT '0.00' NOT NULL, is_active TINYINT(1) DEFAULT 1 NOT NULL, dur VARCHAR(255) DEFAULT NULL COMMENT '(DC2Type:dateinterval)', d DOUBLE PRECISION NOT NULL, parent_id INT DEFAULT NULL, guid CHAR(36) NOT NULL COMMENT '(DC2Type:guid)', UNIQUE INDEX UNIQ_81398E09D17F50A6 (uuid), INDEX IDX_81398E09727ACA70 (parent_id), PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB COMMENT = 'it''s';
ALTER TABLE customer ADD CONSTRAINT FK_81398E09727ACA70 FOREIGN KEY (parent_id) REFERENCES customer (id) ON DELETE SET NULL;
CREATE TABLE messenger_messages (id BIGINT AUTO_INCREMENT NOT NULL, body LONGTEXT NOT NULL, headers LONGTEXT NOT NULL, queue_name VARCHAR(190) NOT NULL, created_at DATETIME NOT NULL, available_at DATETIME NOT NULL, delivered_at DATETIME DEFAULT NULL, INDEX IDX_75EA56E0FB7336F0 (queue_name), INDEX IDX_75EA56E0E3BD61CE (available_at), INDEX IDX_75EA56E016BA31DB (delivered_at), PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;
CREATE TABLE customer_group (customer_id INT NOT NULL, group_id INT NOT NULL, INDEX IDX_1 (customer_id), INDEX IDX_2 (group_id), PRIMARY KEY(customer_id, group_id)) DEFAULT CHARACTER SET utf8 COLLATE `utf8_unicode_ci` ENGINE = InnoDB;
ALTER TABLE customer_group ADD CONSTRAINT FK_1 FOREIGN KEY (customer_id) REFERENCES customer (id) ON DELETE CASCADE;

== doctrine rows
START TRANSACTION;
INSERT INTO customer (uuid, roles, created_at, d, guid) VALUES (x'0123456789abcdef0123456789abcdef', '["ROLE_USER"]', '2024-01-01 00:00:00', 0.1, 'g'), (x'00000000000000000000000000000000', '[]', '2024-01-01 00:00:00', 1e300, 'g2');
SAVEPOINT DOCTRINE_2;
INSERT INTO customer_group VALUES (1,1),(1,2),(2,1);
RELEASE SAVEPOINT DOCTRINE_2;
UPDATE customer SET parent_id = 1 WHERE id = 2;
COMMIT;
UPDATE customer t0 LEFT JOIN customer_group g ON g.customer_id = t0.id SET t0.price = t0.price + 1;
DELETE FROM customer WHERE id = 1;
REPLACE INTO customer (id, uuid, roles, created_at, d, guid) VALUES (2, x'00000000000000000000000000000001', '{}', '2024-01-01 00:00:00', -0.0, 'g2');

== doctrine changes
ALTER TABLE customer ADD phone VARCHAR(35) DEFAULT NULL COMMENT '(DC2Type:phone_number)', ADD locale VARCHAR(5) DEFAULT 'en' NOT NULL, CHANGE price amount NUMERIC(12, 4) DEFAULT '1.5000' NOT NULL, CHANGE roles roles LONGTEXT NOT NULL COMMENT '(DC2Type:array)';
ALTER TABLE customer CHANGE guid guid VARCHAR(40) CHARACTER SET utf8mb4 NOT NULL COLLATE `utf8mb4_bin` COMMENT '';
CREATE INDEX search_idx ON customer (locale, phone(10));
CREATE FULLTEXT INDEX ft_idx ON customer (tags);
ALTER TABLE customer RENAME INDEX uniq_81398e09d17f50a6 TO UNIQ_NEW;
ALTER TABLE customer_group DROP PRIMARY KEY, ADD PRIMARY KEY (group_id, customer_id);
ALTER TABLE customer_group CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TEMPORARY TABLE __temp__customer AS SELECT id, uuid FROM customer;
DROP TEMPORARY TABLE __temp__customer;
RENAME TABLE customer TO client;
ALTER TABLE client RENAME TO customer;
CREATE TABLE sequences (sequence_name VARCHAR(255) NOT NULL, sequence_value INT UNSIGNED DEFAULT 1 NOT NULL, sequence_increment_by INT UNSIGNED DEFAULT 1 NOT NULL, PRIMARY KEY(sequence_name));
INSERT INTO sequences (sequence_name, sequence_value, sequence_increment_by) VALUES ('s', LAST_INSERT_ID(10), 10) ON DUPLICATE KEY UPDATE sequence_value = LAST_INSERT_ID(sequence_value + sequence_increment_by);
INSERT INTO sequences (sequence_name, sequence_value, sequence_increment_by) VALUES ('s', LAST_INSERT_ID(10), 10) ON DUPLICATE KEY UPDATE sequence_value = LAST_INSERT_ID(sequence_value + sequence_increment_by);
ALTER TABLE customer ADD total NUMERIC(12, 4) GENERATED ALWAYS AS (amount * 2) STORED;
ALTER TABLE customer ADD geo POINT DEFAULT NULL COMMENT '(DC2Type:point)';
UPDATE customer SET geo = ST_GeomFromText('POINT(1 2)');

== doctrine back
ALTER TABLE customer DROP FOREIGN KEY FK_81398E09727ACA70;
ALTER TABLE customer_group DROP FOREIGN KEY FK_1;
DROP TABLE customer;
DROP TABLE customer_group;
DROP TABLE sequences;

== wordpress base
SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci';
SET SESSION sql_mode='NO_ENGINE_SUBSTITUTION';
CREATE TABLE wp_users ( ID bigint(20) unsigned NOT NULL auto_increment, user_login varchar(60) NOT NULL default '', user_pass varchar(255) NOT NULL default '', user_nicename varchar(50) NOT NULL default '', user_email varchar(100) NOT NULL default '', user_url varchar(100) NOT NULL default '', user_registered datetime NOT NULL default '0000-00-00 00:00:00', user_activation_key varchar(255) NOT NULL default '', user_status int(11) NOT NULL default '0', display_name varchar(250) NOT NULL default '', PRIMARY KEY  (ID), KEY user_login_key (user_login), KEY user_nicename (user_nicename), KEY user_email (user_email) ) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE wp_usermeta ( umeta_id bigint(20) unsigned NOT NULL auto_increment, user_id bigint(20) unsigned NOT NULL default '0', meta_key varchar(255) default NULL, meta_value longtext, PRIMARY KEY  (umeta_id), KEY user_id (user_id), KEY meta_key (meta_key(191)) ) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE wp_options ( option_id bigint(20) unsigned NOT NULL auto_increment, option_name varchar(191) NOT NULL default '', option_value longtext NOT NULL, autoload varchar(20) NOT NULL default 'yes', PRIMARY KEY  (option_id), UNIQUE KEY option_name (option_name), KEY autoload (autoload) ) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE wp_posts ( ID bigint(20) unsigned NOT NULL auto_increment, post_author bigint(20) unsigned NOT NULL default '0', post_date datetime NOT NULL default '0000-00-00 00:00:00', post_date_gmt datetime NOT NULL default '0000-00-00 00:00:00', post_content longtext NOT NULL, post_title text NOT NULL, post_excerpt text NOT NULL, post_status varchar(20) NOT NULL default 'publish', post_name varchar(200) NOT NULL default '', post_modified datetime NOT NULL default '0000-00-00 00:00:00', post_parent bigint(20) unsigned NOT NULL default '0', guid varchar(255) NOT NULL default '', menu_order int(11) NOT NULL default '0', post_type varchar(20) NOT NULL default 'post', comment_count bigint(20) NOT NULL default '0', PRIMARY KEY  (ID), KEY post_name (post_name(191)), KEY type_status_date (post_type,post_status,post_date,ID), KEY post_parent (post_parent), KEY post_author (post_author) ) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE TABLE wp_comments (comment_ID bigint(20) unsigned NOT NULL auto_increment, comment_date datetime NOT NULL default '0000-00-00 00:00:00', comment_author tinytext NOT NULL, comment_content text NOT NULL, comment_karma int(11) NOT NULL default '0', comment_author_email varchar(100) NOT NULL default '', PRIMARY KEY  (comment_ID), KEY comment_author_email (comment_author_email(10)), KEY comment_approved_date_gmt (comment_karma,comment_date));

== wordpress rows
SET SESSION sql_mode='NO_ENGINE_SUBSTITUTION';
INSERT INTO `wp_options` (`option_name`, `option_value`, `autoload`) VALUES ('siteurl', 'http://x', 'yes') ON DUPLICATE KEY UPDATE `option_name` = VALUES(`option_name`), `option_value` = VALUES(`option_value`), `autoload` = VALUES(`autoload`);
INSERT INTO `wp_options` (`option_name`, `option_value`, `autoload`) VALUES ('siteurl', 'http://y', 'yes') ON DUPLICATE KEY UPDATE `option_name` = VALUES(`option_name`), `option_value` = VALUES(`option_value`), `autoload` = VALUES(`autoload`);
INSERT IGNORE INTO `wp_options` ( `option_name`, `option_value`, `autoload` ) VALUES ('auto_updater.lock', '1700000000', 'off') /* LOCK */;
INSERT INTO wp_users (user_login) VALUES ('admin');
INSERT INTO wp_posts (post_content, post_title, post_excerpt) VALUES ('c', 't 😀', ''), ('', '', '');
UPDATE `wp_posts` SET `post_date_gmt` = '0000-00-00 00:00:00' WHERE `ID` = 2;
DELETE a, b FROM wp_options a, wp_options b WHERE a.option_name LIKE '\_transient\_%' AND a.option_name NOT LIKE '\_transient\_timeout\_%' AND b.option_name = CONCAT( '_transient_timeout_', SUBSTRING( a.option_name, 12 ) ) AND b.option_value < 1700000000;
INSERT INTO wp_usermeta (user_id, meta_key, meta_value) VALUES (1, 'wp_capabilities', 'a:1:{s:13:"administrator";b:1;}');
INSERT INTO wp_usermeta (user_id, meta_key, meta_value) SELECT user_id, CONCAT(meta_key, '_2'), meta_value FROM wp_usermeta;
INSERT INTO wp_comments (comment_author, comment_content) VALUES ('', 'nö');

== wordpress dbDelta
SET SESSION sql_mode='NO_ENGINE_SUBSTITUTION';
ALTER TABLE wp_users ADD COLUMN `spam` tinyint(2) NOT NULL default '0';
ALTER TABLE wp_users CHANGE COLUMN `user_url` user_url varchar(200) NOT NULL default '';
ALTER TABLE wp_posts ADD KEY `type_status_author` (`post_type`,`post_status`,`post_author`);
ALTER TABLE wp_posts ADD COLUMN `post_password` varchar(255) NOT NULL DEFAULT '' AFTER post_status;
ALTER TABLE wp_comments ADD COLUMN comment_date_gmt datetime NOT NULL default '0000-00-00 00:00:00' AFTER comment_date;
ALTER TABLE wp_options DROP INDEX option_name, ADD UNIQUE option_name (option_name(180));
ALTER TABLE wp_posts DROP KEY post_name, ADD KEY post_name (post_name(150)), MODIFY post_title mediumtext NOT NULL;
ALTER TABLE wp_comments CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
ALTER TABLE wp_posts ADD FULLTEXT KEY crp_related (post_title, post_content);
ALTER TABLE wp_usermeta ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS wp_actionscheduler_actions (action_id bigint(20) unsigned NOT NULL auto_increment, hook varchar(191) NOT NULL, status varchar(20) NOT NULL, scheduled_date_gmt datetime NULL default '0000-00-00 00:00:00', priority tinyint unsigned NOT NULL default '10', args varchar(191), extended_args varchar(8000) DEFAULT NULL, claim_id bigint(20) unsigned NOT NULL default '0', PRIMARY KEY  (action_id), KEY hook_status_scheduled_date_gmt (`hook`(163), `status`, `scheduled_date_gmt`), KEY args (args), KEY `claim_id_status_priority_scheduled_date_gmt` (`claim_id`,`status`,`priority`,`scheduled_date_gmt`)) DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS wp_actionscheduler_actions (x int);
INSERT INTO wp_actionscheduler_actions (hook, status, args) VALUES ('h','pending','[]'),('h2','pending','[]');
UPDATE wp_actionscheduler_actions t1 JOIN ( SELECT action_id from wp_actionscheduler_actions WHERE claim_id = 0 ORDER BY priority ASC LIMIT 1 ) t2 ON t1.action_id = t2.action_id SET claim_id=5;
CREATE TABLE wp_wc_orders (id bigint(20) unsigned, status varchar(20) null, currency varchar(10) null, total_amount decimal(26,8) null, date_updated_gmt datetime null, user_agent text null, PRIMARY KEY (id), KEY status (status), KEY date_updated (date_updated_gmt));
REPLACE INTO wp_wc_orders VALUES (1, 'wc-x', 'EUR', 12.345678901, '0000-00-00', 'x'), (1, 'wc-y', 'EUR', 1, NULL, 'x');
DROP TABLE IF EXISTS wp_wc_orders, wp_nothing;
TRUNCATE wp_comments;

== keycloak and nextcloud
CREATE TABLE DATABASECHANGELOGLOCK (ID INT NOT NULL, `LOCKED` TINYINT NOT NULL, LOCKGRANTED datetime NULL, LOCKEDBY VARCHAR(255) NULL, CONSTRAINT PK_DATABASECHANGELOGLOCK PRIMARY KEY (ID));
INSERT INTO DATABASECHANGELOGLOCK (ID, `LOCKED`) VALUES (1, 0);
UPDATE DATABASECHANGELOGLOCK SET `LOCKED` = 1, LOCKEDBY = 'h (10.0.0.1)', LOCKGRANTED = NOW() WHERE ID = 1 AND `LOCKED` = 0;
CREATE TABLE DATABASECHANGELOG (ID VARCHAR(255) NOT NULL, AUTHOR VARCHAR(255) NOT NULL, FILENAME VARCHAR(255) NOT NULL, DATEEXECUTED datetime NOT NULL, ORDEREXECUTED INT NOT NULL, EXECTYPE VARCHAR(10) NOT NULL, MD5SUM VARCHAR(35) NULL, `DESCRIPTION` VARCHAR(255) NULL, COMMENTS VARCHAR(255) NULL, TAG VARCHAR(255) NULL, LIQUIBASE VARCHAR(20) NULL, CONTEXTS VARCHAR(255) NULL, LABELS VARCHAR(255) NULL, DEPLOYMENT_ID VARCHAR(10) NULL);
INSERT INTO DATABASECHANGELOG VALUES ('1','a','f',NOW(),1,'EXECUTED','8:x','d','',NULL,'4',NULL,NULL,'1'),('1','a','f',NOW(),1,'EXECUTED','8:x','d','',NULL,'4',NULL,NULL,'1');
UPDATE DATABASECHANGELOG SET TAG='t' LIMIT 1;
CREATE TABLE CLIENT (ID VARCHAR(36) NOT NULL, ENABLED BIT(1) DEFAULT 0 NOT NULL, FULL_SCOPE BIT(1) DEFAULT b'1' NOT NULL, CLIENT_ID VARCHAR(255) NULL, NOT_BEFORE INT NULL, REALM_ID VARCHAR(36) NULL);
ALTER TABLE CLIENT ADD CONSTRAINT CONSTRAINT_7 PRIMARY KEY (ID);
ALTER TABLE CLIENT ADD CONSTRAINT UK_B71CJLBENV945RB6GCON438AT UNIQUE (REALM_ID, CLIENT_ID);
CREATE TABLE CLIENT_ATTRIBUTES (CLIENT_ID VARCHAR(36) NOT NULL, `VALUE` LONGTEXT, NAME VARCHAR(255) NOT NULL);
ALTER TABLE CLIENT_ATTRIBUTES ADD CONSTRAINT FK_A FOREIGN KEY (CLIENT_ID) REFERENCES CLIENT (ID) ON UPDATE RESTRICT ON DELETE RESTRICT;
INSERT INTO CLIENT VALUES ('a', b'1', 0, 'c', 1, 'r'), ('b', 0, 1, 'c2', 2, NULL);
INSERT INTO CLIENT_ATTRIBUTES VALUES ('a', 'v', 'n'), ('a', 'v', 'n');
DELETE FROM CLIENT_ATTRIBUTES LIMIT 1;
ALTER TABLE CLIENT_ATTRIBUTES ADD CONSTRAINT CONSTRAINT_3C PRIMARY KEY (CLIENT_ID, NAME);
ALTER TABLE CLIENT MODIFY CLIENT_ID VARCHAR(255) CHARACTER SET utf8 NULL;
ALTER TABLE CLIENT CHANGE NOT_BEFORE NOT_BEFORE2 BIGINT DEFAULT 0 NULL;
ALTER TABLE CLIENT ALTER NOT_BEFORE2 SET DEFAULT 5;
ALTER TABLE CLIENT ALTER NOT_BEFORE2 DROP DEFAULT;
ALTER TABLE CLIENT DROP KEY UK_B71CJLBENV945RB6GCON438AT;
ALTER TABLE CLIENT ADD NEWC VARCHAR(36) DEFAULT 'x' NULL, ADD NEWD INT DEFAULT 0 NOT NULL AFTER ENABLED;
CREATE INDEX IDX_C ON CLIENT(REALM_ID, NEWC);
DROP INDEX IDX_C ON CLIENT;
CREATE TABLE `oc_filecache` (`fileid` BIGINT AUTO_INCREMENT NOT NULL, `storage` BIGINT DEFAULT 0 NOT NULL, `path` VARCHAR(4000) DEFAULT NULL COLLATE `utf8mb4_bin`, `path_hash` VARCHAR(32) DEFAULT '' NOT NULL COLLATE `utf8mb4_bin`, `name` VARCHAR(250) DEFAULT NULL, `size` BIGINT DEFAULT 0 NOT NULL, `mtime` BIGINT DEFAULT 0 NOT NULL, `etag` VARCHAR(40) DEFAULT NULL, UNIQUE INDEX fs_storage_path_hash (`storage`, `path_hash`), INDEX fs_path (`path`(64)), INDEX fs_size (`storage`, `mtime`, `fileid`), PRIMARY KEY(`fileid`)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_bin` ENGINE = InnoDB ROW_FORMAT = dynamic;
INSERT IGNORE INTO oc_filecache (storage, path, path_hash, name) VALUES (1, 'a/ä', 'h', 'n'), (1, 'a/Ä', 'h', 'n'), (1, 'x', 'H', 'n');
UPDATE `oc_filecache` SET `mtime` = GREATEST(`mtime`, 1700000000), `etag` = 'e', `size` = `size` + 5 WHERE (`storage` = 1) AND (`path_hash` IN ('h', 'H'));

== drupal and magento
CREATE TABLE `cache_default` (`cid` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'Primary Key: Unique cache ID.', `data` LONGBLOB NULL DEFAULT NULL COMMENT 'A collection of data to cache.', `expire` BIGINT NOT NULL DEFAULT 0, `created` DECIMAL(14, 3) NOT NULL DEFAULT 0, `serialized` SMALLINT NOT NULL DEFAULT 0, PRIMARY KEY (`cid`), INDEX `expire` (`expire`)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COMMENT 'Storage for the cache API.';
INSERT INTO cache_default (cid, data, expire, created) VALUES ('a', 'O:8:"stdClass":0:{}', -1, 1700000000.123) ON DUPLICATE KEY UPDATE data = VALUES(data);
INSERT INTO cache_default (cid, data, expire, created) VALUES ('a', x'00ff27', -1, 1700000000.123), ('A', '', 0, 1) ON DUPLICATE KEY UPDATE data = VALUES(data), expire = VALUES(expire);
CREATE TABLE `node` (`nid` INT unsigned NOT NULL AUTO_INCREMENT, `vid` INT unsigned NULL DEFAULT NULL, `type` VARCHAR(32) CHARACTER SET ascii NOT NULL COMMENT 'The ID of the target entity.', `langcode` VARCHAR(12) CHARACTER SET ascii NOT NULL, PRIMARY KEY (`nid`), UNIQUE KEY `node__vid` (`vid`), INDEX `node_field__type__target_id` (`type`)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COMMENT 'The base table for node entities.';
INSERT INTO node (vid, type, langcode) VALUES (1, 'page', 'en'), (2, 'page', 'de');
ALTER TABLE `node` ADD `uuid` VARCHAR(128) CHARACTER SET ascii NOT NULL DEFAULT '', ADD INDEX `u` (`uuid`);
ALTER TABLE `node` CHANGE `type` `type` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL COMMENT 'changed';
ALTER TABLE `node` DROP PRIMARY KEY, CHANGE `nid` `nid` INT unsigned NOT NULL;
ALTER TABLE `node` CHANGE `nid` `nid` INT unsigned NOT NULL AUTO_INCREMENT, ADD PRIMARY KEY (`nid`);
ALTER TABLE `node` RENAME TO `old_node`;
CREATE TABLE IF NOT EXISTS `sequences` (value INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY);
INSERT INTO sequences () VALUES ();
INSERT INTO sequences () VALUES ();
DELETE FROM sequences WHERE value < 2;
CREATE TABLE IF NOT EXISTS `catalog_product_entity` (`entity_id` INT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT "Entity ID", `sku` VARCHAR(64) NULL COMMENT "SKU", `has_options` SMALLINT NOT NULL DEFAULT 0 COMMENT "Has Options", `created_at` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT "Creation Time", `updated_at` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP COMMENT "Update Time", CONSTRAINT PRIMARY KEY (`entity_id`), INDEX `CATALOG_PRODUCT_ENTITY_SKU` (`sku`)) ENGINE=innodb DEFAULT CHARSET=utf8 DEFAULT COLLATE=utf8_general_ci COMMENT="Catalog Product Table";
CREATE TABLE `catalog_product_entity_decimal` (`value_id` INT NOT NULL AUTO_INCREMENT, `store_id` SMALLINT UNSIGNED NOT NULL DEFAULT 0, `entity_id` INT UNSIGNED NOT NULL DEFAULT 0, `value` DECIMAL(20, 6) UNSIGNED NULL, CONSTRAINT PRIMARY KEY (`value_id`), CONSTRAINT `FK_D5` FOREIGN KEY (`entity_id`) REFERENCES `catalog_product_entity` (`entity_id`) ON DELETE CASCADE, CONSTRAINT `UQ` UNIQUE KEY (`entity_id`, `store_id`), INDEX `S` (`store_id`)) ENGINE=innodb;
ALTER TABLE `catalog_product_entity` MODIFY COLUMN `sku` VARCHAR(64) NOT NULL COMMENT "SKU", ADD COLUMN `row_id` INT(10) UNSIGNED NULL COMMENT "Version Id" AFTER `sku`, ADD CONSTRAINT `UQ_SKU` UNIQUE KEY (`sku`), COMMENT="Catalog; Product";
INSERT INTO catalog_product_entity (sku) VALUES ('a'), ('b'), ('c');
INSERT INTO catalog_product_entity_decimal (entity_id, store_id, value) SELECT entity_id, 1, entity_id / 3 FROM catalog_product_entity;
DELETE `e` FROM `catalog_product_entity` AS `e` LEFT JOIN `catalog_product_entity_decimal` AS `d` ON d.entity_id = e.entity_id WHERE e.sku IN ('b');
UPDATE `catalog_product_entity` AS `e` INNER JOIN `catalog_product_entity_decimal` AS `d` ON d.entity_id = e.entity_id SET `e`.`row_id` = d.value, `d`.`value` = 9;
CREATE TABLE `idx_replica` LIKE `catalog_product_entity`;
INSERT INTO idx_replica SELECT * FROM catalog_product_entity;
RENAME TABLE `catalog_product_entity_decimal` TO `dec_outdated`, `idx_replica` TO `catalog_product_entity_decimal`;
CREATE TRIGGER trg AFTER INSERT ON catalog_product_entity FOR EACH ROW BEGIN INSERT INTO `sequences` () VALUES (); INSERT INTO cache_default (cid) VALUES (NEW.sku); END;
INSERT INTO catalog_product_entity (sku) VALUES ('d');
DROP TRIGGER trg;
PREPARE s FROM 'INSERT INTO catalog_product_entity (sku) VALUES (?)';
SET @a = 'prepared';
EXECUTE s USING @a;
DEALLOCATE PREPARE s;
[mariadb]ALTER TABLE `catalog_product_entity` DROP INDEX IF EXISTS nothing, ADD COLUMN IF NOT EXISTS sku INT;
[mariadb]INSERT INTO catalog_product_entity (sku) VALUES ('ret') RETURNING entity_id;
[mysql]ALTER TABLE cache_default ADD COLUMN j JSON, ADD INDEX d (expire DESC, cid), ADD INDEX inv (created) INVISIBLE;
[mysql]ALTER TABLE cache_default ALTER INDEX inv VISIBLE;
[mysql]UPDATE cache_default SET j = JSON_OBJECT('a', 1.50, 'd', CAST('2024-01-01' AS DATE));
DROP TABLE dec_outdated, catalog_product_entity, catalog_product_entity_decimal;
