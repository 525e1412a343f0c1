"""A small dictionary of Chinese and English, for questions in one of them about documents in the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from clicket.model.text.terms import terms

__all__ = ["to_chinese", "to_english"]

_MAX_LENGTH = 6
# Chinese words of one meaning, and the English for it; a comma is between two English words of which one would do.
_WORDS = """
谁 是谁 哪位=who;何时 什么时候 哪一年 哪年 哪天=when;哪里 在哪里 哪儿 何处 什么地方=where;为什么 为何=why
多少 几个 多少个=how many;多久 多长时间=how long;如何 怎么 怎样 怎么样=how to;哪个 哪些 哪一个 哪种 哪部=which;什么 是什么=what
是否 能否 可以吗=can;创立 创建 成立 建立 创办=found;创始人 创立者=founder;发明=invent;发布 发行=release;版本=version
代号=code name;名字 名称 名=name;来自 源自 出自=come from;电影=movie,film;角色 人物=character;项目=project
领导 领导人 负责人=leader;开发者 开发人员=developer;维护者=maintainer;用户=user;管理员=administrator;命令=command;文件=file
文件名=file name;目录 文件夹=directory;权限=permission;修改 更改 改变 变更=change;编辑=edit;删除 移除=remove;安装=install
卸载=uninstall;升级=upgrade;更新=update;配置=configure,configuration;设置=set,setting;查看 显示=show;列出 列表=list
查找 搜索=search;打开=open;关闭=close;启动=start;停止=stop;重启 重新启动=reboot,restart;引导=boot;运行 执行=run;编译=compile
构建=build;下载=download;上传=upload;备份=backup;恢复=restore;创建=create;添加 增加=add;软件 程序=software,program
软件包 包=package;内核=kernel;系统=system;操作系统=operating system;分区=partition;磁盘 硬盘=disk;内存=memory;网络=network
服务器=server;服务=service;进程=process;线程=thread;日志=log;密码=password;密钥=key;账户 帐户 账号=account;用户名=username
组=group;所有者=owner;主机名=hostname;地址=address;端口=port;协议=protocol;防火墙=firewall;规则=rule;邮件=mail
邮件服务器=mail server;数据库=database;数据=data;桌面=desktop;窗口=window;浏览器=browser;打印机=printer;架构=architecture
处理器=processor;硬件=hardware;驱动=driver;模块=module;函数=function;方法=method;类=class;对象=object;变量=variable
参数=parameter,argument;选项=option;异常=exception;错误=error;引发 抛出=raise;返回=return;默认 缺省=default;值=value;类型=type
字符串=string;列表=list;字典=dictionary;元组=tuple;集合=set;整数=integer;浮点数=float;随机=random;安全=secure,security
加密=encrypt,encryption;编码=encoding;解码=decode;格式=format;时间=time;日期=date;超时=timeout;年=year;月=month;日 天=day
小时=hour;分钟=minute;秒=second;最大=maximum;最小=minimum;数量=number;大小=size;长度=length;宽度=width;高度=height;速度=speed
价格=price;重量=weight;颜色=color;温度=temperature;任务=task;计划任务 定时任务=scheduled task;调度=schedule;脚本=script
语言=language;语法=syntax;库=library;接口=interface;文档=documentation,document;手册=manual,handbook;许可证 许可=license
自由软件=free software;开源=open source;社区=community;合同 契约=contract;基金会=foundation;公司=company;组织=organization
会议=conference;历史=history;开始=begin,start;结束=end;第一 首次 首个 第一个=first;最后=last;下一个=next;当前 目前 现在=current
以前 之前=before,previous;之后 以后=after;稳定版 稳定=stable;测试版 测试=testing;不稳定=unstable;区别 不同 差别=difference
含义 意思=meaning;用途 作用 目的=purpose;例子 示例=example;使用 用=use;支持=support;需要=need,require;包含 包括=contain,include
属于=belong;提供=provide;允许=allow;失败=fail,failure;成功=success;检查 验证=check,verify;签名=signature;监控 监视=monitor
虚拟机=virtual machine;虚拟化=virtualization;容器=container;镜像=mirror,image;源代码 源码=source code;作者=author;导演=director
演员=actor;歌手=singer;作曲家=composer;书 书籍=book;小说=novel;歌曲=song;专辑=album;出生 生于=born;去世 逝世 死亡 死=die,death
结婚=marry;妻子=wife;丈夫=husband;父亲=father;母亲=mother;儿子=son;女儿=daughter;兄弟=brother;姐妹=sister;国家=country;城市=city
首都=capital;省=province;河 河流=river;山=mountain;岛=island;海=sea;人口=population;面积=area;大学=university;学校=school
总统=president;国王=king;女王=queen;皇帝=emperor;战争=war;战役=battle;条约=treaty;世界杯=world cup;足球=football;冠军=champion
赢得 获得=win;奖=prize,award;世界=world;中国=China;美国=United States;英国=United Kingdom;法国=France;德国=Germany;日本=Japan
俄罗斯=Russia;北京=Beijing;上海=Shanghai;伦敦=London;巴黎=Paris;柏林=Berlin;纽约=New York;修理=repair;退款=refund
退货=return goods;订单=order;付款 支付=payment,pay;发票=invoice;客户=customer;合同=contract;保修=warranty;运费=shipping
员工=employee;假期 休假=vacation,leave;工资=salary;邮箱=email address;电话=phone;网站=website;页面=page;按钮=button;登录=login
注册=register;权利=rights;政策=policy;费用=cost,fee;期限=deadline,term;规定=rule,regulation;申请=apply,application
"""


@cache
def _english() -> dict[str, str]:
    entries = [entry for line in _WORDS.split("\n") for entry in line.split(";") if entry]
    return {word: meaning for words, meaning in (entry.split("=") for entry in entries) for word in words.split()}


@cache
def _chinese() -> dict[str, tuple[str, ...]]:
    """By the term of an English word, the Chinese words for it."""
    found: dict[str, dict[str, None]] = {}
    for word, meaning in _english().items():
        for term in terms(meaning):
            found.setdefault(term, {})[word] = None
    return {term: tuple(words) for term, words in found.items()}


def to_english(text: str, is_known: Callable[[str], bool]) -> str:
    """The text with Chinese words in English; of two that mean the same, the known ones, or both if none is. Characters that are in no
    known word are left out; other scripts stay."""
    english = _english()
    parts: list[str] = []
    at = 0
    while at < len(text):
        for size in range(min(_MAX_LENGTH, len(text) - at), 0, -1):
            meaning = english.get(text[at : at + size])
            if meaning is not None:
                words = meaning.split(",")
                parts.append(f" {' '.join([word for word in words if len(words) == 1 or is_known(word)] or words)} ")
                at += size
                break
        else:
            parts.append(text[at] if text[at] < "\u2e80" else " ")
            at += 1
    return " ".join("".join(parts).split())


def to_chinese(term: str) -> tuple[str, ...]:
    """Chinese words for an English term of `model.text.terms`; empty if it is unknown."""
    return _chinese().get(term, ())
