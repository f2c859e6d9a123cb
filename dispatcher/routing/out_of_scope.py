"""Requests that hardly any team of agents is for: general knowledge, small talk, chores, writing.

They show a router what a request looks like that belongs to nobody, beside the agents' own examples of what belongs to
them. Where agents serve such a topic, their examples outweigh these. Written for Ekiden.
"""

__all__ = ["OUT_OF_SCOPE"]

OUT_OF_SCOPE: tuple[str, ...] = tuple(
    """\
how many moons does jupiter have
write a short poem about the sea in winter
why is the sky red in the evening
who painted the ceiling of that famous chapel in rome
what should i feed a kitten in its first weeks
give me a recipe for lentil soup
tell me a joke about penguins
translate good morning into portuguese
how tall is the highest mountain of africa
what does the word serendipity mean
how do i get a wine stain out of a carpet
name three novels by russian authors
i feel lonely today, what can i do
how long do i boil an egg
what is seventeen times twenty-three
summarize the plot of a famous tragedy
turn off the lights in the kitchen
how do vaccines work
which team won the cup last year
plan a birthday party for a six-year-old
what is the capital of mongolia
compose a letter of apology to my neighbour
is it healthy to drink coffee every day
explain black holes to a child
how often should i water a cactus
who invented the printing press
give me tips for a job interview
what are the rules of chess
how do i tie a bow tie
what is the speed of light
suggest a name for my new dog
why do cats purr
how do i train for a marathon
write a slogan for a bakery
what year did the first world war end
how can i sleep better at night
is there life on other planets
convert five miles into kilometres
what are good stretches for back pain
describe the taste of a mango
what is the meaning of life
which vitamins are in spinach
how do i change a flat tyre
recommend a board game for four players
what is the difference between a crocodile and an alligator
how do i ask someone out on a date
rewrite this sentence in a more formal tone
what are the symptoms of the flu
how do bees make honey
what was the name of the first dog in space
how do i become a pilot
what time is it in tokyo
can you sing me a song
how old are you
do you have feelings
what is your favourite colour
thanks, that was all
you are very funny
who made you
are we friends
set the heating to twenty degrees
vacuum the living room
what is on television tonight
how do i grow tomatoes on a balcony
explain the theory of evolution in two sentences
who is the president of brazil
make up a riddle about time
what are the ingredients of pesto
how many bones are in the human body
what should i wear to a wedding in summer
how do i remove a splinter
give me a workout plan without equipment
what is the best way to learn the guitar
define photosynthesis
list the planets in order of size
how do i write a good cover letter
what is inflation
explain the offside rule
who wrote the odyssey
what is the population of canada
how do magnets work
which languages are spoken in switzerland
draw a picture of a castle
what is the square root of two hundred
how do i fold a paper plane
why do leaves fall in autumn
how can i stop biting my nails
brainstorm ideas for a school play
what is the longest river in the world
help me with my physics homework
how much does an elephant weigh
how do i clean a cast iron pan
what is a haiku
which stocks should i buy
is this mole dangerous
can a landlord raise the rent twice a year
how do i file my taxes as a freelancer
what is the plot of the newest superhero film
pick a random number between one and ten
flip a coin
spell onomatopoeia
correct the grammar of this paragraph
write a product description for a wooden toy
give advice to somebody who moves abroad
classify these animals by their habitat
what is the opposite of generous
continue this story: the door opened slowly
how do airplanes stay in the air
what causes earthquakes
how do i make friends in a new city
my goldfish looks ill
when do swallows fly south
how do i knit a scarf
who discovered penicillin
what is the distance from the earth to the sun
what are the health benefits of yoga
invent a superhero with an unusual power
how do i apologise to a friend
what is quantum entanglement
arrange a bunch of flowers for the table
how do i read a nutrition label
why did the roman empire fall
what is the best age to start school
where can i see the northern lights
how do you say thank you in japanese
what is a good present for my grandmother
木星有多少颗卫星
写一首关于冬天大海的短诗
为什么傍晚的天空是红色的
小猫刚出生几周应该喂什么
给我讲一个关于企鹅的笑话
把早上好翻译成法语
非洲最高的山有多高
怎样去掉地毯上的酒渍
我今天觉得很孤独，怎么办
鸡蛋要煮多久
十七乘以二十三等于多少
请概括一部著名悲剧的情节
把厨房的灯关掉
疫苗是怎么起作用的
蒙古的首都是哪里
给邻居写一封道歉信
每天喝咖啡健康吗
用孩子能懂的话解释黑洞
仙人掌多久浇一次水
是谁发明了印刷术
面试有什么技巧
国际象棋的规则是什么
光速是多少
给我的新小狗起个名字
怎样才能睡得更好
请把下面的句子改写得更正式
感冒有哪些症状
蜜蜂怎么酿蜜
你几岁了
你有感情吗
谢谢，没有别的事了
你真有意思
谁创造了你
阳台上怎么种番茄
用两句话解释进化论
编一个关于时间的谜语
人体有多少块骨头
夏天参加婚礼穿什么好
什么是通货膨胀
解释一下越位规则
奥德赛是谁写的
磁铁是怎么工作的
两百的平方根是多少
为什么秋天树叶会落
给一场校园话剧想几个点子
世界上最长的河是哪条
帮我做物理作业
大象有多重
什么是俳句
我应该买哪些股票
这颗痣危险吗
房东一年可以涨两次房租吗
自由职业者怎么报税
从一到十随便选一个数字
改正这段话的语法错误
为一件木头玩具写一段产品介绍
给要移居国外的人一些建议
慷慨的反义词是什么
续写这个故事：门慢慢地打开了
地震是怎么产生的
刚到一个城市怎么交朋友
地球到太阳的距离是多少
瑜伽对健康有什么好处
什么是量子纠缠
罗马帝国为什么灭亡
日语里谢谢怎么说
送奶奶什么礼物好
分析一下环境污染的原因
列出保护野生动物的三种方法
描述一位对社会有贡献的科学家
为什么人会做梦
写一段关于友谊的文字
如何提高记忆力
""".splitlines()
)
